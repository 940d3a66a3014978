"""Exports what a run has learned as a versioned SavedModel, for TF Serving or any TensorFlow process.

A version has signatures for encoded images and for pixels, its preprocessing within, and a README that describes it."""

import pathlib

from absl import flags

from lci_tf import cli, files
from lci_tf.errors import InputError

_WHAT, _WHERE = "What", "Where"

flags.DEFINE_string("run_dir", None, "a run of lci_tf.train, or a checkpoint of one", module_name=_WHAT)
flags.DEFINE_enum("checkpoint", "latest", ["latest", "best"], "which of the run", module_name=_WHAT)
flags.DEFINE_list(
    "features",
    ["embedding"],
    "embedding (conv5 averaged over space, of length 1); conv1 … conv5, whole maps; conv1_pooled …, to 9,000 units",
    module_name=_WHAT,
)
flags.DEFINE_enum(
    "on_bad_image", "error", ["error", "zeros"], "fail, or give zeros and an output `valid`", module_name=_WHAT
)
flags.DEFINE_boolean("half", False, "keep the weights in float16", module_name=_WHAT)
flags.DEFINE_enum(
    "format", "saved_model", ["saved_model", "keras"], "a SavedModel, or C itself as a Keras file", module_name=_WHAT
)
flags.DEFINE_string("export_dir", None, "where to [RUN_DIR/export]", module_name=_WHERE)
flags.DEFINE_integer("version", None, "its number [the next]", lower_bound=1, module_name=_WHERE)


def main():
    flag = cli.FLAGS
    if not flag.run_dir:
        raise InputError("--run_dir: which run is to be exported?")
    if flag.export_dir and files.is_bucket(flag.export_dir):
        raise InputError(f"--export_dir={flag.export_dir}: is written to a folder; copy it to the bucket from there")
    from lci_tf.runs import trained
    from lci_tf.serving.export import exporting

    model = trained.from_run(flag.run_dir, flag.checkpoint)
    export_dir = pathlib.Path(flag.export_dir or f"{model.origin['run']}/export").expanduser()
    if flag.format == "keras":
        print(f"Exported   {exporting.export_keras(model, export_dir)}")
        return
    folder = exporting.export(model, export_dir, flag.version, flag.features, flag.on_bad_image, flag.half)
    print(f"Exported   {folder}")
    if flag.half:
        print(exporting.what_half_costs(model, folder))
    print(f"Serve it   scripts/serve {export_dir}")


if __name__ == "__main__":
    cli.run(main, __doc__)
