"""What of `check_data` is not seen by running the command on a folder: see tests/test_check_data.py."""

from lci_tf import data
from lci_tf.data import inspection
from lci_tf.data.pipeline import Crops


def test_images_in_a_bucket_are_described_as_in_a_folder(tmp_path, bucket, write_png):
    names = ["cat/1.png", "cat/copy.png", "dog/2.png", "dog/3.png"]
    for i, name in enumerate(names):
        write_png(name, height=20 + i, width=30)
    (tmp_path / "cat" / "copy.png").write_bytes((tmp_path / "cat" / "1.png").read_bytes())
    for name in names:
        (bucket / name).parent.mkdir(parents=True, exist_ok=True)
        (bucket / name).write_bytes((tmp_path / name).read_bytes())
    there, here = (
        inspection.inspect(data.open_source("folder", data_dirs=str(place)), Crops(16, 16))
        for place in (bucket, tmp_path)
    )
    assert there.sizes == here.sizes and sum(there.sizes.values()) == 4
    assert there.formats == here.formats == {"PNG": 4}
    assert there.duplicates == [[f"{bucket}/cat/1.png", f"{bucket}/cat/copy.png"]]
    assert there.digests.keys() == here.digests.keys() and len(there.samples) == 4
