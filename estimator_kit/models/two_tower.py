"""The built-in model `two_tower`: a user vector, an item vector, and their inner product."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Optional

import pydantic
import tensorflow as tf

from estimator_kit.embeddings import growing_ids
from estimator_kit.errors import ConfigError
from estimator_kit.model.catalogue import Columns
from estimator_kit.model.catalogue_ranks import Ranked, choices
from estimator_kit.model.group_checks import check_dense_group, columns_of
from estimator_kit.model.heads.losses import unit_vectors
from estimator_kit.model.heads.sampled_items import log_probability
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.model.model_params import NOTHING, SCORES, TRAINING, TRAINING_AND_SCORES, Group
from estimator_kit.model.own_losses import ExampleLosses
from estimator_kit.models.dnn import DNNParams, PositiveInt, tower_logits
from estimator_kit.tf_estimator import ModeKeys
from feature_specs.heads import Binary, Ranking
from input_pipelines.transform.transforms import Features

# The output with log p, only in training.
_LOG_P = "item_log_probability"


def in_batch_scores(
    users: tf.Tensor,
    items: tf.Tensor,
    ids: Optional[tf.Tensor] = None,
    log_probabilities: Optional[tf.Tensor] = None,
) -> tf.Tensor:
    """<u_i, v_j> - log p_j: float32 [rows, rows]. The diagonal has the item of the row itself.

    Args:
      users, items: float32 [rows, n].
      ids: int64 [rows], the ids of the items. Rows with the same id are not negatives of each
        other.
      log_probabilities: float32 [rows], log p.
    """
    scores = tf.matmul(users, items, transpose_b=True)
    if log_probabilities is not None:
        scores -= log_probabilities
    if ids is not None:
        same = tf.equal(ids[:, tf.newaxis], ids[tf.newaxis])
        others = ~tf.eye(tf.shape(ids)[0], dtype=tf.bool)
        scores = tf.where(same & others, -1e9 * tf.ones_like(scores), scores)
    return scores


def in_batch_losses(scores: tf.Tensor) -> tf.Tensor:
    """-log softmax(scores)[i, i] of each row i: float32 [rows].

    Two rows with scores ((1, 0), (0, 1)) cost log(1 + exp(-1)) = 0.3133 each.
    """
    own = tf.range(tf.shape(scores)[0])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=own, logits=scores)


class TwoTowerModel(ModelFn):
    """A model for binary objectives, which learn from the rows with label 1, and for rankings.

    The logit of a row is s = <u, v> / temperature. u and v are the outputs of two DNNs, scaled to
    length 1 unless `normalize` is off. Training ranks the item of a row above the items of the
    other rows of its batch (Yi et al., Sampling-Bias-Corrected Neural Modeling for Large Corpus
    Item Recommendations, RecSys 2019). s_ij is the logit of the user of row i and the item of row
    j, and r is the label times its weight:

        loss = -sum_i r_i log softmax_j(s_ij - log p_j)[i] / sum_i r_i

    p_j is the probability that item j is in a batch. It corrects for popular items, which are
    negatives more often. Training estimates it (`sampled_items`), so ids do not have to be sorted
    by frequency, as they must for log-uniform sampling. An item that occurs several times in a
    batch is never its own negative. The negatives come from the batch, so the loss depends on the
    batch size. Use a large one.

    Several objectives, such as click and purchase, share the vectors, so that one index serves all
    of them. Each has its own loss over the same logits. Training minimizes their sum by
    `loss_weight`, or what the parameter `combine` says. The sum is the loss of Yi et al. with the
    reward

        r_i = sum_k loss_weight_k y_ik / sum_i y_ik

    where y_k is the label of objective k times its weight. With the losses 0.2, 0.4 and 0.6 of
    three rows, the clicks (1, 1, 0), the purchases (1, 0, 0) and the `loss_weight` 0.5 of
    purchases, the loss is (0.2 + 0.4) / 2 + 0.5 * 0.2 = 0.4. One temperature is enough: without
    `normalize` the vectors learn their length, and `combine: uncertainty` learns a factor for each
    loss, which stands for a temperature of its softmax (Kendall et al., Multi-Task Learning Using
    Uncertainty, CVPR 2018, equation 10).

    Hard negatives are items that a user saw and did not take. In the loss above, a row with label 0
    is a negative like any other: the correction makes it count as often as its item would in a
    softmax over all items. An objective with the head `ranking` learns from what was shown
    together. Its groups are the rows of one page, which share a batch, and its `loss: softmax` is
    the choice among them (Cao et al., Learning to Rank: From Pairwise Approach to Listwise
    Approach, ICML 2007):

        loss = -log softmax_h(s_ih)[i]        for the row i taken, over the rows h of its group

    It needs no correction, because all rows are there. With the logits 1 and 0 of two rows, of
    which the first was taken, it is log(1 + e^-1) = 0.3133. `loss_weight` says how much hard
    negatives count. Use it with a binary objective: with hard negatives alone, the model cannot
    find items among all (Huang et al., Embedding-based Retrieval in Facebook Search, KDD 2020).

    The metric `loss` is this loss over the batches of the evaluation, without log p, which only
    training knows. So compare it only between evaluations with the same `--eval_batch_size`. The
    head computes the other metrics, such as `auc/<objective>`, for single rows. A softmax does not
    calibrate logits, so `loss/<objective>` says little. Predictions also contain the vectors, as
    `user_vector` and `item_vector`, for an index of nearest neighbors.

    An evaluation ranks all items for each row with a label above 0 (`model.catalogue`). r_i is the
    label times its weight, and rank_i the rank of the row's item among all items, except those that
    the user has taken in the training files if `user_id` is set. Of equal scores, the row's item
    has the worst rank.

        recall_at_<k>    sum_i r_i [rank_i <= k] / sum_i r_i
        ndcg_at_<k>      sum_i r_i [rank_i <= k] / log2(1 + rank_i) / sum_i r_i
        coverage_at_<k>  the share of all items that are among the first k of any such row

    A row whose item is not in the catalogue counts as a miss; `unknown_item_share` is their share.
    """

    class Params(DNNParams):
        """Attributes:
        user_group: the group that the user DNN reads. It must not share a column with `item_group`.
        item_group: the group that the item DNN reads.
        hidden_units: the number of units of each hidden layer of both DNNs.
        dimension: the length of both vectors.
        item_id: the categorical column with the id of the item, one per record. None turns the
          correction for popular items off, so that the model ranks them too low.
        user_id: the categorical column with the id of the user, one per record. An evaluation
          leaves out the items that the user has taken in the training files. None leaves out none.
        recall_at: each k of the metrics `recall_at_<k>`, `ndcg_at_<k>` and `coverage_at_<k>`.
        normalize: whether to scale the vectors to length 1.
        temperature: the divisor of the product, above 0. A smaller number sharpens the softmax. 0.1
          suits vectors of length 1.
        frequency_rate: how fast the estimate of p follows, in (0, 1]. 0.05 averages over about 20
          occurrences of an item.
        """

        user_group: Group = "user"
        item_group: Group = "item"
        dimension: PositiveInt = 32
        item_id: Annotated[Optional[str], TRAINING_AND_SCORES] = "item"
        user_id: Annotated[Optional[str], SCORES] = None
        recall_at: Annotated[tuple[PositiveInt, ...], NOTHING] = (10,)
        normalize: bool = True
        temperature: float = pydantic.Field(default=0.1, gt=0, allow_inf_nan=False)
        frequency_rate: Annotated[float, TRAINING] = pydantic.Field(default=0.05, gt=0, le=1)

    calibrated = False

    def check_spec(self) -> None:
        p, spec = self.params, self.spec
        check_dense_group(spec, p.user_group)
        check_dense_group(spec, p.item_group)
        both = set(columns_of(spec, p.user_group)) & set(columns_of(spec, p.item_group))
        if both:
            raise ConfigError(
                f"groups {p.user_group!r} and {p.item_group!r} share the columns "
                f"{', '.join(sorted(both))}. Put the columns of the user and of the item into "
                "separate groups."
            )
        for name, entry in spec.objectives.items():
            if not isinstance(entry, (Binary, Ranking)) or entry.steps_in_row:
                steps = " with steps" if entry.steps_in_row else ""
                raise ConfigError(
                    f"two_tower learns objectives with the head binary or ranking, got "
                    f"{entry.head}{steps} for {name!r}. Remove the objective."
                )
            if entry.logits_dimension != 1:
                raise ConfigError(
                    f"objective {name!r} has the loss delayed_feedback, but two_tower compares the "
                    "rows with label 1 with each other. Choose another loss, or another model."
                )
            if isinstance(entry, Binary) and p.item_id is not None:
                self._check_metrics(name, entry)
        if not any(isinstance(entry, Binary) for entry in spec.objectives.values()):
            raise ConfigError(
                "two_tower needs an objective with the head binary, got only ranking. Add one: "
                "without negatives from other rows, the model cannot find items among all."
            )
        self._check_ids("user_id", p.user_id, p.user_group, "null leaves out no items.")
        no_item = "null trains without a correction for popular items."
        self._check_ids("item_id", p.item_id, p.item_group, no_item)
        if p.user_id is not None and p.item_id is None:
            raise ConfigError(
                f"user_id: got {p.user_id!r} without item_id, which metrics of the catalogue need. "
                "Set item_id, or remove user_id."
            )

    def _check_metrics(self, name: str, entry: Binary) -> None:
        """Raises ConfigError if an objective has a metric that the catalogue makes, too."""
        at = self.params.recall_at
        of_catalogue = {choice.label for choice in choices(at)}
        for choice in entry.metric_choices():
            if choice.label in of_catalogue:
                raise ConfigError(
                    f"objective {name!r} has the metric {choice.label} within groups, and "
                    f"recall_at={list(at)} makes a metric of this name for all items. Use another "
                    "number for one of the two."
                )

    def _check_ids(self, param: str, name: Optional[str], group: str, without: str) -> None:
        """Raises ConfigError if a column is not one of single ids that the group reads."""
        if name is None:
            return
        spec = self.spec
        read = dict.fromkeys(spec.category_of(n)[0] for n in columns_of(spec, group))
        groups = dict.fromkeys(n for names in spec.groups.values() for n in names)
        single = [
            each
            for each in dict.fromkeys((*read, *groups))
            if spec.columns[each].categorical
            and not spec.columns[spec.ids_of(each)].keyed
            and all(spec.features[f].single for f in spec.features_of(each))
        ]
        if name in single:
            return
        if name in spec.columns and spec.columns[name].keyed:
            feature = next(spec.features_of(name))
            raise ConfigError(
                f"{param}: column {name!r} is growing, so its ids change. Name a column with fixed "
                f"ids, such as {feature}_key: {{hash_bucket: {feature}, size: 1000000}}, and put "
                f"it into any group, such as ids: [{feature}_key]. {without}"
            )
        single = [each for each in single if each in read]
        raise ConfigError(
            f"{param}: got {name!r}, expected a categorical column with one id per record that "
            f"group {group!r} reads: {', '.join(single) or 'it reads none'}. {without}"
        )

    def groups(self) -> tuple[str, ...]:
        return (self.params.user_group, self.params.item_group)

    def logits(self, features: Features, mode: str) -> Logits:
        p = self.params
        vectors = {}
        for part, group in (("user", p.user_group), ("item", p.item_group)):
            with tf.compat.v1.variable_scope(part):
                vectors[part] = self._vector(features, group, mode)
                self.add_output(f"{part}_vector", vectors[part])
        if mode == ModeKeys.TRAIN and p.item_id is not None:
            with tf.compat.v1.variable_scope("item_frequency"):
                size = self.spec.size_of(p.item_id)
                log_p = log_probability(features[p.item_id], size, rate=p.frequency_rate)
            self.add_output(_LOG_P, log_p)
        users = vectors["user"] / p.temperature
        return dict.fromkeys(
            self.heads, tf.reduce_sum(users * vectors["item"], axis=1, keepdims=True)
        )

    def _vector(self, features: Features, group: str, mode: str) -> tf.Tensor:
        """The vectors of users or items: float32 [rows, dimension]."""
        p = self.params
        vector = tower_logits(self.dense_input(features, group), p, mode, p.dimension)
        return unit_vectors(vector) if p.normalize else vector

    @property
    def catalogue_columns(self) -> Optional[Columns]:
        p, spec = self.params, self.spec
        if p.item_id is None or not p.recall_at:
            return None
        labels = [spec.label_of(n) for n, o in spec.objectives.items() if isinstance(o, Binary)]
        return Columns(p.item_id, tuple(columns_of(spec, p.item_group)), p.user_id, tuple(labels))

    def metrics(
        self,
        labels: Mapping[str, tf.Tensor],
        predictions: Mapping[str, tf.Tensor],
        weights: Mapping[str, tf.Tensor],
        features: Features,
    ) -> Mapping[str, Any]:
        """The metrics of the catalogue, if an evaluation has one."""
        p, v1 = self.params, tf.compat.v1
        if self.catalogue is None:
            return {}

        def vector_of(fed: Features) -> tf.Tensor:
            scope = v1.get_variable_scope()
            with v1.variable_scope(scope, reuse=True), v1.variable_scope("item"):
                ids = growing_ids.looked_up(self.spec, fed)
                return self._vector(ids, p.item_group, ModeKeys.EVAL)

        ranked = Ranked(self.catalogue, features, vector_of)
        targets = ranked.targets(features[p.item_id])
        of_user = None if p.user_id is None else features[p.user_id]
        rank, first = ranked.ranks(predictions["user_vector"], targets, of_user, max(p.recall_at))
        result = {}
        for name, head in self.heads.items():
            if isinstance(self.spec.objectives[name], Binary):
                rewards = tf.cast(labels[head.label_name], tf.float32) * weights[name]
                with v1.variable_scope(f"metrics/{name}"):
                    found = ranked.metrics(targets, rank, first, rewards, p.recall_at)
                result.update({f"{label}/{name}": metric for label, metric in found.items()})
        return result

    def example_losses(
        self,
        labels: Mapping[str, tf.Tensor],
        predictions: Mapping[str, tf.Tensor],
        weights: Mapping[str, tf.Tensor],
        features: Features,
    ) -> ExampleLosses:
        p = self.params
        ids = None if p.item_id is None else features[p.item_id]
        log_p = predictions.get(_LOG_P)
        users = predictions["user_vector"] / p.temperature
        losses = in_batch_losses(in_batch_scores(users, predictions["item_vector"], ids, log_p))
        return {
            name: (losses, tf.cast(labels[head.label_name], tf.float32) * weights[name])
            for name, head in self.heads.items()
            if isinstance(self.spec.objectives[name], Binary)
        }
