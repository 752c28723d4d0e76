"""The reference reading of a spec, with TensorFlow's own feature columns."""
