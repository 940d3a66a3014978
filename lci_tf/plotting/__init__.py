"""Pictures and diagrams from arrays."""
