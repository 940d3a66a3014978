"""Image features from unlabelled photographs, learned by telling image transformations apart."""

import importlib.util
import os

from lci_tf import quiet_import

__version__ = "0.1.0"
__all__ = ["load_features"]

ERRORS = "2"  # level of TensorFlow's C++ log that shows errors and worse

# From TensorFlow 2.16 on `tf.keras` is Keras 3 unless this is set before TensorFlow is imported; TensorFlow 2.15 has
# Keras 2 already, and with this set would look for a tf_keras that is not there.
if importlib.util.find_spec("tf_keras"):
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
# Show only errors of TensorFlow's C++ log. Set it to 0 to see everything.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", ERRORS)
# By default TensorFlow uses oneDNN's kernels only on the newest processors; they are nearly twice as fast on others.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
quiet_import.install("tensorflow")


def __getattr__(name):
    if name == "load_features":  # imported on first use, so that importing the package does not import TensorFlow
        from lci_tf.serving.export.loading import load_features

        return load_features
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
