"""The losses that an objective of a spec can choose, one frozen model each.

    loss: huber                       # with its default options
    loss: {huber: {delta: 0.5}}

`loss_of(...)` returns the type of a head's field `loss`. The type accepts the given losses in both
forms. A loss that only one family of heads has is in the module of the family.
`estimator_kit.model.heads` computes the losses. In the formulas, y is the label
and p is the predicted probability. This module does not import TensorFlow.
"""

from __future__ import annotations

from typing import Annotated, Any, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Entry, NotNegativeFloat, only_key
from feature_specs.errors import did_you_mean, value_text


class LossEntry(Entry):
    """A loss in a spec. Its one field has the name of the loss, and holds its options."""

    @property
    def options(self) -> Any:
        """The value of the key: the options of the loss."""
        return getattr(self, self.name())

    @classmethod
    def name(cls) -> str:
        """The key of the loss in a spec, such as `huber`."""
        return next(iter(cls.model_fields))

    @classmethod
    def default(cls) -> Any:
        """The loss with its default options."""
        return cls.model_validate({cls.name(): {}})

    @property
    def calibrated(self) -> bool:
        """Whether predictions that minimize it are probabilities, or means of the label."""
        return True

    def negative(self, objective: str) -> Optional[str]:
        """If the loss may be below 0: a clause that says so of an objective, and the remedy."""
        return None


def may_be_negative(objective: str) -> str:
    return f"the loss of objective {objective!r} may be."


class NoOptions(Entry):
    """The options of a loss that has none: `{}`."""


class SigmoidCrossEntropy(LossEntry):
    """Cross-entropy of the sigmoid: -y log p - (1 - y) log(1 - p), with p = sigmoid(logit)."""

    class Values(Entry):
        """The options of `sigmoid_cross_entropy`."""

        label_smoothing: Annotated[float, Field(ge=0, lt=1)] = Field(
            0.0,
            description="Moves each label by this share towards 1/2 (Szegedy et al., 2016). A "
            "number in [0, 1).",
        )

    sigmoid_cross_entropy: Values = Field(
        description="-y log p - (1 - y) log(1 - p), with p = sigmoid(logit)."
    )

    @property
    def calibrated(self) -> bool:
        return bool(self.options.label_smoothing == 0)


class SoftmaxCrossEntropy(LossEntry):
    """Cross-entropy of the softmax: -log p, with p = softmax(logits)[label]."""

    class Values(Entry):
        """The options of `softmax_cross_entropy`."""

        label_smoothing: Annotated[float, Field(ge=0, lt=1)] = Field(
            0.0,
            description="Moves each label by this share towards 1/n for n classes (Szegedy et al., "
            "2016). A number in [0, 1).",
        )

    softmax_cross_entropy: Values = Field(description="-log p, with p = softmax(logits)[label].")

    @property
    def calibrated(self) -> bool:
        return bool(self.options.label_smoothing == 0)


class Focal(LossEntry):
    """Focal loss: -(1 - p)^gamma log p, where p is the probability of the true class.

    It gives less weight to rows that are already predicted well.
    """

    class Values(Entry):
        """The options of `focal`."""

        gamma: NotNegativeFloat = Field(
            2.0,
            description="The exponent, 0 or more. 0 gives the cross-entropy. A larger number gives "
            "less weight to rows that are already predicted well.",
        )

    focal: Values = Field(
        description="-(1 - p)^gamma log p, where p is the probability of the true class."
    )

    @property
    def calibrated(self) -> bool:
        return bool(self.options.gamma == 0)


class LogLoss(LossEntry):
    """-y log(p + epsilon) - (1 - y) log(1 - p + epsilon), as `tf.compat.v1.losses.log_loss`."""

    class Values(Entry):
        """The options of `log_loss`."""

        epsilon: Annotated[float, Field(gt=0, le=0.1)] = Field(
            1e-7, description="The number that is added to avoid log 0. In (0, 0.1]."
        )

    log_loss: Values = Field(
        description="-y log(p + epsilon) - (1 - y) log(1 - p + epsilon), with p = sigmoid(logit)."
    )


class Squared(LossEntry):
    """The squared error, (prediction - label)^2. For a probability it is the Brier score."""

    squared: NoOptions = Field(description="(prediction - label)^2.")


class Absolute(LossEntry):
    """The absolute error, |prediction - label|. The best prediction is the median."""

    absolute: NoOptions = Field(description="|prediction - label|.")

    @property
    def calibrated(self) -> bool:
        return False


class LossField:
    """The losses that a field `loss` allows: its short form, and its JSON Schema."""

    def __init__(self, models: tuple[type[LossEntry], ...]):
        self.models = {model.name(): model for model in models}

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        return {"anyOf": [{"enum": list(self.models)}, handler(schema)]}

    def spelled(self, value: Any) -> Any:
        """The long form. Raises ValueError for another loss."""
        if isinstance(value, str):
            value = {value: {}}
        if isinstance(value, Entry):
            return value
        key = only_key(value)
        if not isinstance(value, dict) or key not in self.models:
            shown = key if isinstance(value, dict) and len(value) == 1 else value
            hint = did_you_mean(shown, tuple(self.models))
            raise ValueError(f"got {value_text(shown)}, expected a loss of this head{hint}")
        return value


def loss_of(*models: type[LossEntry]) -> Any:
    """The type of a field that holds one of the given losses, in either form."""
    details = LossField(models)
    tagged = tuple(Annotated[m, pydantic.Tag(name)] for name, m in details.models.items())
    union: Any = models[0]
    if len(models) > 1:
        union = Annotated[Union[tagged], pydantic.Discriminator(only_key)]
    return Annotated[union, pydantic.BeforeValidator(details.spelled), details]
