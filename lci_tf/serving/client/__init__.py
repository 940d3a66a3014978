"""Clients of TF Serving."""
