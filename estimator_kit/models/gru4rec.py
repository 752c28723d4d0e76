"""The built-in model `gru4rec`: recurrent layers over the steps of a session, for the next item.

Hidasi et al., Session-based Recommendations with Recurrent Neural Networks, ICLR 2016, and Hidasi &
Karatzoglou, Recurrent Neural Networks with Top-k Gains for Session-based Recommendations, CIKM
2018. h is the state of the last GRU layer (see `recurrent`), e are the embeddings of the items:

    h_t = GRU(e of step t, h_(t-1)),     score of item j after step t = <W h_t + c, e_j> + b_j

W and c, which make the state as wide as an embedding, are left out if the widths are equal.

Differences from the papers: a row is a whole session, and gradients go back through all of its
steps. The papers use Adagrad, and the default here is Adam, as in `sasrec`. The default loss of the
head is the softmax over all items. For the losses of the papers, set
`loss: {bpr_max: {samples: 2048, negatives: in_batch}}` in the head.
"""

from __future__ import annotations

import tensorflow as tf

from estimator_kit.models.dnn_params import HiddenUnits
from estimator_kit.models.next_item_model import NextItemModel, NextItemParams
from estimator_kit.models.recurrent import gru_layer


class GRU4RecModel(NextItemModel):
    """GRU layers over the steps of a group."""

    class Params(NextItemParams):
        """Attributes:
        recurrent_units: the number of units of each GRU layer, starting at the steps.
        item_bias: whether each item has a number that is added to its score, as in the papers.
        """

        recurrent_units: HiddenUnits = (100,)
        item_bias: bool = True

    def encode(self, steps: tf.Tensor, lengths: tf.Tensor, mode: str) -> tf.Tensor:
        for i, units in enumerate(self.params.recurrent_units):
            steps = gru_layer(self.drop(steps, mode), lengths, units, f"layer_{i}")
        return self.drop(steps, mode)
