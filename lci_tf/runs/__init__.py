"""The run directory, its checkpoints, and networks loaded from it."""
