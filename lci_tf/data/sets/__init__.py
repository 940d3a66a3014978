"""One module per data set or file format, which finds its splits in a directory. `lci_tf.config.names` lists them."""
