"""Packaging. The bounds below resolve to one of two working sets, chosen by the Python that installs.

TensorFlow 2.15 is the newest that tensorflow-addons accepts, and has builds up to Python 3.11; from 3.12 on
TensorFlow 2.21 serves, with `tf-keras` as its Keras 2. `constraints.txt` holds the exact versions tested.
"""

import pathlib
import re

from setuptools import find_packages, setup

ROOT = pathlib.Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "lci_tf" / "__init__.py").read_text()).group(1)

WITH_ADDONS = 'python_version >= "3.10" and python_version < "3.12"'
WITHOUT_ADDONS = 'python_version >= "3.12" and python_version < "3.14"'
# On any other Python nothing is asked for, so that pip complains of the Python and not of a package without a build.
EITHER = 'python_version >= "3.10" and python_version < "3.14"'

setup(
    name="lci_tf",
    version=VERSION,
    description="Image features from unlabelled photographs, learned by telling image transformations apart",
    long_description=(ROOT / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10,<3.14",
    packages=find_packages(include=["lci_tf", "lci_tf.*"]),
    install_requires=[
        f"tensorflow>=2.15.1,<2.16; {WITH_ADDONS}",
        f"tensorflow-addons>=0.23,<0.24; {WITH_ADDONS}",
        f"tensorflow>=2.21,<2.22; {WITHOUT_ADDONS}",
        f"tf-keras>=2.21,<2.22; {WITHOUT_ADDONS}",
        f"tensorflow-datasets>=4.9.10,<4.10; {EITHER}",
        f"etils[epath]>=1.9; {EITHER}",  # paths in buckets
        f"importlib_resources>=6; {EITHER}",  # tensorflow-datasets needs it to download, and does not say so
        f"keras-cv>=0.9,<0.10; {EITHER}",
        f"absl-py>=2.1,<3; {EITHER}",
        f"numpy>=1.26,<2; {WITH_ADDONS}",
        f"numpy>=2,<3; {WITHOUT_ADDONS}",
        f"tensorboard>=2.15; {EITHER}",  # TensorFlow 2.21 writes logs for it, but does not bring it
        f"pillow>=10; {EITHER}",
        f"matplotlib>=3.8; {EITHER}",
        f"scikit-learn>=1.4; {EITHER}",
        f"tqdm>=4.66,<5; {EITHER}",
        # TensorFlow 2.15 speaks protobuf 4; newer tensorflow-metadata brings generated code that needs 5.
        f"protobuf>=4.25,<5; {WITH_ADDONS}",
        f"tensorflow-metadata>=1.17,<1.18; {WITH_ADDONS}",
    ],
    extras_require={
        "gpu": [
            f"tensorflow[and-cuda]>=2.15.1,<2.16; {WITH_ADDONS}",
            f"tensorflow[and-cuda]>=2.21,<2.22; {WITHOUT_ADDONS}",
        ],
        "serving": [
            f"tensorflow-serving-api>=2.15.1,<2.16; {WITH_ADDONS}",
            f"tensorflow-serving-api>=2.19; {WITHOUT_ADDONS}",
        ],
        "beam": ["apache-beam>=2.70,<3"],
        "dask": ["apache-beam[dask]>=2.70,<3"],  # embedding on a cluster of one's own
        "detection": ["pycocotools>=2.0.7", "opencv-contrib-python-headless>=4.10,<5"],
        "faiss": ["faiss-cpu>=1.8"],
        "test": [
            "pytest>=8",
            "pytest-xdist>=3.6",
            "ruff>=0.8",
            "mypy>=2.4,<3",
            "apache-beam[dask]>=2.70,<3",
            "faiss-cpu>=1.8",
            "opencv-contrib-python-headless>=4.10,<5",
            "pycocotools>=2.0.7",
            f"tensorflow-serving-api>=2.15.1,<2.16; {WITH_ADDONS}",
            f"tensorflow-serving-api>=2.19; {WITHOUT_ADDONS}",
        ],
    },
)
