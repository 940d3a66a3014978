"""Features as a service: SavedModels that any TensorFlow process loads, and clients of TF Serving."""
