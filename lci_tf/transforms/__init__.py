"""Image transformations, batched, as functions of images and random draws."""
