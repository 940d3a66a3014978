"""Exports the features of a run as a versioned SavedModel, for TF Serving or any TensorFlow process.

Each version has signatures for encoded images and for pixels, includes the preprocessing, and has a README."""

import pathlib

from absl import flags

from lci_tf import cli, files
from lci_tf.errors import InputError

_WHAT, _WHERE = "What", "Where"

flags.DEFINE_string("run_dir", None, "run directory of lci_tf.train, or one of its checkpoints", module_name=_WHAT)
flags.DEFINE_enum("checkpoint", "latest", ["latest", "best"], "which checkpoint of --run_dir", module_name=_WHAT)
cli.define_trust_run_flag(_WHAT)
flags.DEFINE_list(
    "features",
    ["embedding"],
    "outputs: embedding (conv5 averaged over space, of length 1), feature maps conv1 … conv5, and conv1_pooled … "
    "conv5_pooled, the maps pooled to about 9,000 units",
    module_name=_WHAT,
)
flags.DEFINE_enum(
    "on_bad_image",
    "error",
    ["error", "zeros"],
    "what to do with unreadable images: fail the request, or return zeros and an output `valid`",
    module_name=_WHAT,
)
flags.DEFINE_float(
    "max_image_megapixels", 100.0, "largest image that is read; up to three times as many MB are decoded at once",
    lower_bound=0.01, upper_bound=200.0, module_name=_WHAT,
)  # fmt: skip
flags.DEFINE_float(
    "max_request_megabytes", 4000.0, "largest total of a request's decoded images, in MB; larger requests fail",
    lower_bound=0.1, module_name=_WHAT,
)  # fmt: skip
flags.DEFINE_boolean("half", False, "store the weights in float16", module_name=_WHAT)
flags.DEFINE_enum(
    "format", "saved_model", ["saved_model", "keras"], "a SavedModel, or C as a Keras file", module_name=_WHAT
)
flags.DEFINE_string("export_dir", None, "folder for the versions of the export [RUN_DIR/export]", module_name=_WHERE)
flags.DEFINE_integer("version", None, "version number [the next free one]", lower_bound=1, module_name=_WHERE)


def main() -> None:
    flag = cli.FLAGS
    if not flag.run_dir:
        raise InputError("--run_dir: missing; give a run of lci_tf.train to export")
    if flag.export_dir and files.is_bucket(flag.export_dir):
        raise InputError(
            f"--export_dir={flag.export_dir}: must be a local folder; copy exports to the bucket from there"
        )
    cli.require_trust(run_dir=flag.run_dir)
    from lci_tf.runs import trained
    from lci_tf.serving.export import crops, exporting

    model = trained.from_run(flag.run_dir, flag.checkpoint)
    export_dir = pathlib.Path(flag.export_dir or f"{model.origin['run']}/export").expanduser()
    if flag.format == "keras":
        print(f"Exported   {exporting.export_keras(model, export_dir)}")
        return
    limits = crops.Limits(round(1e6 * flag.max_image_megapixels), round(1e6 * flag.max_request_megabytes))
    folder = exporting.export(model, export_dir, flag.version, flag.features, flag.on_bad_image, flag.half, limits)
    print(f"Exported   {folder}")
    if flag.half:
        print(exporting.what_half_costs(model, folder))
    print(f"Serve it   scripts/serve {export_dir}")


if __name__ == "__main__":
    cli.run(main, __doc__)
