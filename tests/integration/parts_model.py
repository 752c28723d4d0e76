"""A model with partitioned variables, and with tables of TensorFlow that grow."""

import tensorflow as tf

import estimator_kit as ek

_v1 = tf.compat.v1


class PartsModel(ek.ModelFn):
    class Params(ek.ModelParams):
        parts: int = ek.parameter(2, changes="nothing")

    def logits(self, features, mode):
        inputs = self.dense_input(features, "deep")
        parts = self.params.parts

        def partitioner(shape, dtype):
            return [1, min(parts, shape[1])] if len(shape) == 2 else [min(parts, shape[0])]

        start = _v1.glorot_uniform_initializer()  # Keras warns if it starts several parts.
        with _v1.variable_scope("net", partitioner=partitioner):
            hidden = _v1.layers.dense(
                inputs, 6, tf.nn.relu, kernel_initializer=start, name="hidden"
            )
            logits = _v1.layers.dense(
                hidden, self.logits_dimension, kernel_initializer=start, name="logits"
            )
        return logits + self._seen(features, mode)

    def _seen(self, features, mode):
        """float32 [rows, 1]: 0.01 for each table that has seen the city in training."""
        cities = features["city"]
        plain = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0, name="plain")
        dense = tf.lookup.experimental.DenseHashTable(
            tf.int64, tf.float32, 0.0, empty_key=-7, deleted_key=-8, name="dense"
        )
        inserts = []
        if mode == tf.estimator.ModeKeys.TRAIN:
            ones = tf.fill(tf.shape(cities), 1.0)
            inserts = [table.insert(cities, ones) for table in (plain, dense)]
        with tf.control_dependencies(inserts):
            seen = plain.lookup(cities) + dense.lookup(cities)
        return 0.01 * seen[:, tf.newaxis]
