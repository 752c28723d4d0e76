"""The base class of the entries of heads: the fields and questions that all heads share.

Each head is a frozen model that checks its own fields. This module does not import TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Optional, TypeVar

import pydantic
from pydantic import Field

from feature_specs.entry import Declared, NotNegativeFloat, field
from feature_specs.heads.losses import LossEntry, LossField
from feature_specs.heads.metrics import Kinds, MetricChoice, MetricField

_Detail = TypeVar("_Detail")

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


class Answer(NamedTuple):
    """The output of an export from which metrics of rows are computed.

    Attributes:
      output: its name. Where an order or a logarithm matters, it is the logits, because a
        probability rounds to 0 or 1.
      wide: whether the metrics need all its numbers, [rows, n], instead of the first, [rows].
    """

    output: str
    wide: bool = False


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

    # The metrics that the head reports without being asked, and those that come with others or with
    # `true_probability` in the label.
    always: ClassVar[Kinds]
    sometimes: ClassVar[Kinds] = ()

    # The metrics that need groups of rows.
    by_group: ClassVar[Kinds] = ()

    # The metrics of rows by which the gate can judge a model, in the order of its default
    # conditions. They are computed from `answer`; a head without it has none.
    judged_by: ClassVar[Kinds] = ()
    answer: ClassVar[Optional[Answer]] = None

    # The metrics to look at, the most important first: slices, importances, TensorBoard and the
    # report page. `loss` follows.
    main: ClassVar[tuple[MetricChoice, ...]] = ()

    # What the head compares, for a head whose loss is not of single rows.
    compares: ClassVar[Optional[str]] = None

    # Whether a label is a list of classes, instead of one class.
    lists_classes: ClassVar[bool] = False

    # Whether the loss stands for errors with a normal distribution: of numbers and directions, not
    # of classes, rates and counts.
    normal_errors: ClassVar[bool] = False

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
    def unit(self) -> float:
        """The size of numbers in which the model computes its answers, such as a price's."""
        return 1.0

    @property
    def calibrated(self) -> bool:
        """Whether training makes predictions probabilities, or means of the label.

        Otherwise, nothing judges the model by metrics `of_probabilities`.
        """
        loss = getattr(self, "loss", None)
        return loss is None or bool(loss.calibrated)

    @property
    def judged(self) -> bool:
        """Whether metrics of rows can judge the objective."""
        return self.answer is not None and self.steps_in_row is None

    @property
    def learns_vectors(self) -> bool:
        """Whether a label is a vector of numbers, apart from its parts."""
        return self.width > 1 + len(self.label_parts)

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
        field = self.metric_field()
        return tuple(field.choice(item) for item in getattr(self, "metrics", ()))

    @classmethod
    def metric_field(cls) -> MetricField:
        """The metrics that a spec can ask for."""
        return cls._detail("metrics", MetricField) or MetricField(())

    @classmethod
    def losses(cls) -> Mapping[str, type[LossEntry]]:
        """The losses that a spec can choose, by name."""
        details = cls._detail("loss", LossField)
        return details.models if details is not None else {}

    @classmethod
    def _detail(cls, name: str, kind: type[_Detail]) -> Optional[_Detail]:
        details = cls.model_fields[name].metadata if name in cls.model_fields else []
        return next((detail for detail in details if isinstance(detail, kind)), None)

    def negative_loss(self, objective: str) -> Optional[str]:
        """If the loss may be below 0: a clause that says so of an objective, and the remedy."""
        loss = getattr(self, "loss", None)
        return loss.negative(objective) if loss is not None else None

    @pydantic.model_validator(mode="after")
    def _check_groups(self) -> Any:
        chosen = self.metric_choices()
        grouped = [c.name for c in chosen if c.kind in self.by_group]
        if grouped and self.group is None:
            raise ValueError(
                f"the metric {grouped[0]} needs groups. Add group_by with the feature that names "
                "the group of a row, such as a user id."
            )
        if self.group is not None and not grouped and not self.ranks:
            names = ", ".join(kind.name for kind in self.by_group)
            raise ValueError(
                f"no metric uses group_by. Add one of {names} to metrics, or remove group_by."
            )
        if self.group is not None and self.steps_in_row is not None:
            raise ValueError(
                "group_by groups rows, so it cannot be combined with steps. Remove one of the two."
            )
        return self


class StepEntry(HeadEntry):
    """A head that can be learned at each step of a row."""

    steps: Optional[Annotated[int, Field(ge=2, le=2**31)]] = field(
        None,
        changes="weights outputs",
        description="The number of steps per row. Loss and metrics treat each step as a row. The "
        "label has the shape `[steps]`, or `[steps, dimension]` for vectors. To pad shorter rows, "
        "give the label a `weight` of the shape `[steps]` that is 0 for padding. By default a row "
        "has one value.",
    )
