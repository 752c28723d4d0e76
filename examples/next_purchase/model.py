"""A multi-layer GRU over a user's last items: which item is next, and is it bought?"""

import tensorflow as tf

import estimator_kit as ek


class NextPurchase(ek.ModelFn):
    """At each step, the attribute vector of the next item and whether it is bought."""

    class Params(ek.ModelParams):
        """`units` of the GRU layers, `dropout` of what enters them, and the share of a loss."""

        units: tuple[int, ...] = (32, 32)
        dropout: float = ek.parameter(0.1, changes="training")
        purchase_share: float = ek.parameter(0.5, changes="training scores")

    def check_spec(self):
        vector, bought = (self.spec.objectives.get(n) for n in ("next_vector", "bought"))
        if vector is None or bought is None or not vector.steps == bought.steps is not None:
            raise ek.ConfigError("expected objectives next_vector and bought of the same steps")

    def groups(self):
        return ("history",)

    def logits(self, features, mode):
        layers, heads = tf.keras.layers, self.spec.objectives
        steps, dimension = heads["bought"].steps, heads["next_vector"].dimension
        vectors = self.dense_input(features, "history")  # [rows, steps * dimension]
        x = tf.reshape(vectors, [-1, steps, dimension])
        for units in self.params.units:
            gru = layers.GRU(units, dropout=self.params.dropout, return_sequences=True)
            x = self.keras(gru, x, mode)  # [rows, steps, units]
        next_vector = self.keras(layers.Dense(dimension, name="next_vector"), x, mode)
        bought = self.keras(layers.Dense(1, name="bought"), x, mode)
        return {
            "next_vector": tf.reshape(next_vector, [-1, steps * dimension]),
            "bought": tf.reshape(bought, [-1, steps]),
        }

    def loss(self, losses):
        return losses["next_vector"] + self.params.purchase_share * losses["bought"]
