"""Data sets, a module each."""
