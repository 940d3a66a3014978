"""Warm-up requests, which TF Serving replays on loading, so that a user's first request is not slow."""

import logging
import pathlib

import tensorflow as tf

log = logging.getLogger("lci_tf")
FILE = pathlib.Path("assets.extra", "tf_serving_warmup_requests")


def write(folder: pathlib.Path, sample: tf.Tensor) -> None:
    """Adds a request of one image and one of several to a SavedModel, if the `serving` extra is installed.

    Args:
      folder: of the SavedModel.
      sample: encoded images, strings [n].
    """
    try:
        from tensorflow_serving.apis import predict_pb2, prediction_log_pb2
    except ImportError:
        log.info("no warm-up requests were written, for which pip install lci_tf[serving] is needed")
        return
    path = folder / FILE
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as writer:
        for contents in (sample[:1], sample):
            request = predict_pb2.PredictRequest(inputs={"image_bytes": tf.make_tensor_proto(contents)})
            request.model_spec.signature_name = "serving_default"
            entry = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
            writer.write(entry.SerializeToString())
