"""A model in a module that begins as code for TensorFlow 1 does."""

import tensorflow.compat.v1 as tf

import estimator_kit as ek

tf.disable_v2_behavior()


class OldModel(ek.ModelFn):
    def logits(self, features, mode):
        inputs = self.dense_input(features, "deep")
        width = inputs.shape[1].value
        weights = tf.get_variable("weights", [width, self.logits_dimension])
        return tf.matmul(inputs, weights)
