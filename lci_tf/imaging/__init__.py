"""Encoded images to pixels, and the one preprocessing."""
