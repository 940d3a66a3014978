"""Settings and protocols."""
