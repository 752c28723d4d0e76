"""The reference reading of a spec, with `tf.feature_column`."""
