"""The figures of a paper, from a run."""
