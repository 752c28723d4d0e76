"""The head `next_item`: which item of a catalogue follows each step of a sequence.

    labels:
      next_item_id: {dtype: string, shape: variable}
    objectives:
      next: {head: next_item, label: next_item_id, items: item}

The catalogue is the ids of a categorical column. This module does not import TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from feature_specs.entry import Entry, NotNegativeFloat, PositiveInt, field
from feature_specs.heads import losses
from feature_specs.heads import metrics as kinds
from feature_specs.heads.base import HeadEntry
from feature_specs.heads.losses import LossEntry, loss_of
from feature_specs.heads.metrics import MetricChoice, MetricKind, metrics_of

UNKNOWN_ITEM_SHARE = MetricKind(
    "unknown_item_share",
    "The share of the rows whose item is not in the catalogue, such as a word outside of the "
    "vocabulary. The model cannot predict it: these rows count as misses, and not in `loss`. Also "
    "of the model `two_tower`, for the rows with label 1.",
    reads_predictions=False,
)
POPULARITY_LIFT = MetricKind(
    "popularity_lift",
    "How much more popular the first k ranks are than the items that rows contain, as "
    "`popularity_lift_at_<k>`: the mean popularity of the first k items / the mean popularity of "
    "the items at the steps of the row - 1. The popularity of an item is the share of rows with "
    "it among their steps. It is 0 without a popularity bias, and 1 if recommended items are "
    "twice as popular as the items that users chose (Abdollahpouri et al., 2020).",
    number="count",
)


Negatives = Literal["log_uniform", "uniform", "in_batch", "mixed"]


class _OfNegatives(Entry):
    """The options of a loss that compares the next item with sampled items."""

    samples: Annotated[int, Field(ge=1, le=2**31)] = Field(
        512,
        description="The number of sampled items, which all steps of a batch share. At most the "
        "number of items.",
    )
    negatives: Negatives = Field(
        "log_uniform",
        description="How items are sampled. `log_uniform` takes the first ids most often, so it "
        "suits a vocabulary that is sorted by frequency. `uniform` takes all ids equally often. "
        "`in_batch` takes the next items of the other steps of the batch. `mixed` takes one half "
        "as `in_batch` and one half as `uniform`.",
    )


class SampledSoftmax(LossEntry):
    """Softmax cross-entropy over the next item and sampled items, with a correction.

    Each score s is replaced by s - log q, where q is the expected number of times that the item is
    sampled. So the loss estimates the softmax cross-entropy over all items.

    See Jean et al., "On Using Very Large Target Vocabulary for Neural Machine Translation", 2015.
    """

    class Values(_OfNegatives):
        """The options of `sampled_softmax`."""

    sampled_softmax: Values = Field(
        description="-log p, where p is the softmax of s - log q over the next item and sampled "
        "items. q is the expected number of times that an item is sampled."
    )


class Bpr(LossEntry):
    """The mean of -log sigmoid(s - s_j) over sampled items j, where s is the next item's score.

    See Rendle et al., "BPR: Bayesian Personalized Ranking from Implicit Feedback", 2009.
    """

    class Values(_OfNegatives):
        """The options of `bpr`."""

    bpr: Values = Field(
        description="The mean of -log sigmoid(s - s_j) over sampled items j, where s is the score "
        "of the next item."
    )


class BprMax(LossEntry):
    """-log sum_j w_j sigmoid(s - s_j) + r sum_j w_j s_j^2, where w is the softmax of the s_j.

    See Hidasi & Karatzoglou, "Recurrent Neural Networks with Top-k Gains for Session-based
    Recommendations", 2018.
    """

    class Values(_OfNegatives):
        """The options of `bpr_max`."""

        score_regularization: NotNegativeFloat = Field(
            1.0, description="The factor r of the squared scores of sampled items."
        )

    bpr_max: Values = Field(
        description="-log sum_j w_j sigmoid(s - s_j) + r sum_j w_j s_j^2 over sampled items j, "
        "where s is the score of the next item, and w is the softmax of the s_j."
    )


class NextItem(HeadEntry):
    """The item that follows each step, from one score per item of a catalogue.

    The catalogue is the ids of the column `items`, without its out-of-vocabulary buckets. The label
    is a list with one item for each step of that column. A step whose label is outside of the
    catalogue, empty or -1 has no loss. Training uses all steps. Evaluation, prediction and exports
    use the last step of a row, and score the whole catalogue.
    """

    head: Literal["next_item"] = field(
        changes="weights outputs training scores",
        description="The item that follows each step, from one score per item of a catalogue.",
    )
    items: str = field(
        changes="values weights outputs",
        description="The `vocabulary`, `hash_bucket` or `identity` column with `sequence: true` "
        "whose ids are the items.",
    )
    loss: loss_of(  # type: ignore[valid-type]
        losses.SoftmaxCrossEntropy, SampledSoftmax, Bpr, BprMax
    ) = field(
        losses.SoftmaxCrossEntropy.default(),
        changes="training scores",
        description="The loss of a step. The default is `softmax_cross_entropy` over all items, "
        "which suits catalogues of up to some thousands. The other losses sample items in "
        "training. Evaluation computes all of them over the whole catalogue.",
    )
    exclude_seen: bool = field(
        False,
        changes="outputs scores",
        description="`true` leaves out the items of the row's own steps from rankings: in metrics "
        "and with the flag `--top_k`. If the next item is one of them, metrics count a miss. A "
        "request to the signature `top_k` says itself whether to leave them out.",
    )
    top_k: PositiveInt = field(
        10,
        changes="outputs",
        description="The number of items that the signature `top_k` returns for a row whose `k` is "
        "0.",
    )
    metrics: metrics_of(  # type: ignore[valid-type]
        kinds.RECALL, kinds.HIT_RATE, kinds.NDCG, kinds.MRR, kinds.COVERAGE, POPULARITY_LIFT
    ) = field(
        ({"recall": 10}, {"ndcg": 10}, "mrr"),
        changes="nothing",
        description="Metrics in addition to the default metrics: `{recall: 10}`, "
        "`{hit_rate: 10}`, `{ndcg: 10}`, `mrr`, `{coverage: 10}` and `{popularity_lift: 10}`. They "
        "rank the whole catalogue at the last step of each row.",
    )

    always = (kinds.LOSS, kinds.WEIGHT_SUM, UNKNOWN_ITEM_SHARE)
    main = (MetricChoice(kinds.NDCG, 10),)
    compares = "the items of a catalogue"

    @property
    def reads_seen(self) -> bool:
        """Whether an evaluation needs the items at the steps of a row."""
        lifts = [chosen for chosen in self.metric_choices() if chosen.name == "popularity_lift"]
        return self.exclude_seen or bool(lifts)
