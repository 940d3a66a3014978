"""Training the classifier against the inpainter: the learner and all that surrounds it."""
