"""What the features are worth: classifiers on frozen features."""
