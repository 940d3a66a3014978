"""What is embedded with: the run, the photographs and the servers of the tests of serving."""

from tests.serving.conftest import export_dir, photos, run, stood_in, trouble  # noqa: F401
