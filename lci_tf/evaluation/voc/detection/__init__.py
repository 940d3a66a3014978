"""Fast R-CNN on C's convolutions: from region proposals to boxes with classes, and their evaluation by VOC's rules."""
