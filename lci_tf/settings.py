"""Shows the settings that pre-training with these flags would use, and marks those that differ from the paper's."""

from absl import flags

from lci_tf import cli
from lci_tf import train as train  # defines the flags
from lci_tf.config import presets, probe_protocols

flags.DEFINE_integer("replicas", 1, "number of devices that share a batch", lower_bound=1, module_name="Training")


def main() -> None:
    settings = cli.settings_from_flags()
    settings.check(replicas=cli.FLAGS.replicas)
    print(presets.describe(cli.FLAGS.dataset, settings))
    for name, protocol in probe_protocols.PROTOCOLS.items():
        if protocol.dataset == cli.FLAGS.dataset:
            print(f"Linear probe {name!r}\n{probe_protocols.describe(protocol)}")


if __name__ == "__main__":
    cli.run(main, __doc__)
