"""The base class of the entries of heads: the fields and questions that all heads share.

Each head is a frozen model that checks its own fields. This module does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Optional

import pydantic

from feature_specs.entry import Declared, NotNegativeFloat, field
from feature_specs.heads.metric_choices import BY_GROUP, MetricChoice, choice

Reduction = Literal["mean", "sum", "sum_over_batch_size", "sum_over_nonzero_weights"]

# The smallest and the largest valid label. None means no bound.
Range = tuple[Optional[int], Optional[int]]


class LabelPart(NamedTuple):
    """A number that the loss reads in addition to the label, such as whether an event was seen.

    Attributes:
      path: the field of the objective that names it, such as `("event",)`.
      name: a feature, or the label of another objective.
      bounds: the smallest and the largest value. If both are known, it is an integer.
    """

    path: tuple[str, ...]
    name: str
    bounds: Range

    @property
    def field(self) -> str:
        """What the part is called in messages."""
        return self.path[-1]


class HeadEntry(Declared):
    """What one output of the model learns."""

    label: Optional[str] = field(
        None,
        changes="weights outputs training scores",
        description="The name of the label to learn. The default is the label with the name of the "
        "objective.",
    )
    loss_weight: NotNegativeFloat = field(
        1.0,
        changes="training scores",
        description="The factor of this loss in the sum of all losses of the model.",
    )
    reduction: Reduction = field(
        "mean",
        changes="training scores",
        description="How the losses of rows become the loss of a batch. All four start from the "
        "weighted sum of the losses: `mean` divides it by the sum of the weights, `sum` leaves it "
        "as it is, `sum_over_batch_size` divides it by the number of rows, and "
        "`sum_over_nonzero_weights` by the number of rows whose weight is not 0.",
    )

    # The `label_bounds` of a head whose bounds are constant.
    label_range: ClassVar[Range] = (None, None)

    # Whether the loss compares rows of a group, so that the rows of a group must share a batch.
    ranks: ClassVar[bool] = False

    # The metrics that need groups of rows.
    by_group: ClassVar[tuple[str, ...]] = BY_GROUP

    @property
    def logits_dimension(self) -> int:
        """The number of logits per row, or per step for a head with `steps`."""
        return 1

    @property
    def steps_in_row(self) -> Optional[int]:
        """The number of steps per row, or None for a head without `steps`."""
        return getattr(self, "steps", None)

    @property
    def logits_in_row(self) -> int:
        """The number of logits per row, for all steps together."""
        return self.logits_dimension * (self.steps_in_row or 1)

    def logit_names(self, words: Optional[Sequence[str]]) -> tuple[Any, ...]:
        """What each logit of a row stands for. A warm start moves logits by these names.

        Args:
          words: the vocabulary of the label, or None.
        """
        return tuple(range(self.logits_in_row))

    @property
    def classes(self) -> Optional[int]:
        """The number of classes, or None if the label is a number."""
        return None

    @property
    def label_bounds(self) -> tuple[Optional[float], Optional[float]]:
        """The smallest and the largest label that the head can learn."""
        return self.label_range

    @property
    def label_parts(self) -> tuple[LabelPart, ...]:
        """What the loss reads in addition to the label. The model gets it as part of the label."""
        return ()

    @property
    def width(self) -> int:
        """The number of numbers in a label as the model gets it, or in one step of it."""
        return 1 + len(self.label_parts)

    @property
    def group(self) -> Optional[str]:
        """The feature of `group_by`, or None."""
        return getattr(self, "group_by", None)

    @property
    def items_column(self) -> Optional[str]:
        """The categorical column whose ids the label has, or None."""
        return getattr(self, "items", None)

    @property
    def reads_seen(self) -> bool:
        """Whether an evaluation needs the items at the steps of a row, in addition to the label."""
        return False

    def metric_choices(self) -> tuple[MetricChoice, ...]:
        """The items of `metrics` as names and numbers."""
        return tuple(choice(item) for item in getattr(self, "metrics", ()))

    @pydantic.model_validator(mode="after")
    def _check_groups(self) -> Any:
        chosen = self.metric_choices()
        grouped = [c.name for c in chosen if c.name in self.by_group]
        if grouped and self.group is None:
            raise ValueError(
                f"the metric {grouped[0]} needs groups. Add group_by with the feature that names "
                "the group of a row, such as a user id."
            )
        if self.group is not None and not grouped and not self.ranks:
            raise ValueError(
                f"no metric uses group_by. Add one of {', '.join(BY_GROUP)} to metrics, or remove "
                "group_by."
            )
        if self.group is not None and self.steps_in_row is not None:
            raise ValueError(
                "group_by groups rows, so it cannot be combined with steps. Remove one of the two."
            )
        return self
