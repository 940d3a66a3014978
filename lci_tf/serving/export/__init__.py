"""Exported networks."""
