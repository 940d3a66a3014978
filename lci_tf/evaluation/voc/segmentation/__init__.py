"""Segmentation: FCN-32s on C's layers, which assigns a class to every pixel."""
