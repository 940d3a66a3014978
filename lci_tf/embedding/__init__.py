"""Features of many images."""
