"""The head `next_item`: which item of a catalogue follows each step of a sequence.

    labels:
      next_item_id: {dtype: string, shape: variable}
    objectives:
      next: {head: next_item, label: next_item_id, items: item}

The catalogue is the ids of a categorical column. This module does not import TensorFlow.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from feature_specs.entry import PositiveInt, field
from feature_specs.heads import losses
from feature_specs.heads.base import HeadEntry
from feature_specs.heads.losses import loss_of
from feature_specs.heads.metric_choices import metrics_of

_SOFTMAX = losses.SoftmaxCrossEntropy.model_validate({"softmax_cross_entropy": {}})


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
        losses.SoftmaxCrossEntropy, losses.SampledSoftmax, losses.Bpr, losses.BprMax
    ) = field(
        _SOFTMAX,
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
        "recall", "hit_rate", "ndcg", "mrr", "coverage", "popularity_lift"
    ) = field(
        ({"recall": 10}, {"ndcg": 10}, "mrr"),
        changes="nothing",
        description="Metrics in addition to the default metrics: `{recall: 10}`, "
        "`{hit_rate: 10}`, `{ndcg: 10}`, `mrr`, `{coverage: 10}` and `{popularity_lift: 10}`. They "
        "rank the whole catalogue at the last step of each row.",
    )

    by_group: ClassVar[tuple[str, ...]] = ()

    @property
    def reads_seen(self) -> bool:
        """Whether an evaluation needs the items at the steps of a row."""
        lifts = [chosen for chosen in self.metric_choices() if chosen.name == "popularity_lift"]
        return self.exclude_seen or bool(lifts)
