"""What scripts/bench measures: one module for each subject, whose `run` prints a table and returns ratios by name."""

import lci_tf  # noqa: F401 (before TensorFlow, which it keeps quiet)
