"""The losses that an objective of a spec may choose, one frozen model each.

    loss: huber                       # with the options that it has by default
    loss: {huber: {delta: 0.5}}

`loss_of(...)` gives the type of a head's field `loss`: it takes these losses alone and spells both
forms alike. The formulas are in `estimator_kit.model.objectives.losses`. Imports no TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, Union

import pydantic
from pydantic import Field

from feature_specs.entry import Entry, NotNegativeFloat, PositiveFloat, only_key
from feature_specs.errors import did_you_mean, value_text

_Share = Annotated[float, Field(gt=0, lt=1)]


class NoOptions(Entry):
    """Of a loss without options: `{}`."""


class SigmoidCrossEntropy(Entry):
    """Cross-entropy of the sigmoid; `label_smoothing` moves labels so far towards 1/2."""

    class Values(Entry):
        label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0

    sigmoid_cross_entropy: Values


class SoftmaxCrossEntropy(Entry):
    """Cross-entropy of the softmax; `label_smoothing` moves labels so far towards 1/n."""

    class Values(Entry):
        label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0

    softmax_cross_entropy: Values


class Focal(Entry):
    """Cross-entropy times (1 - p)^gamma: less weight for what is right already."""

    class Values(Entry):
        gamma: NotNegativeFloat = 2.0

    focal: Values


class LogLoss(Entry):
    """Cross-entropy of the probability itself, kept `epsilon` away from log 0."""

    class Values(Entry):
        epsilon: Annotated[float, Field(gt=0, le=0.1)] = 1e-7

    log_loss: Values


class Squared(Entry):
    """(prediction - label)^2."""

    squared: NoOptions


class Absolute(Entry):
    """|prediction - label|."""

    absolute: NoOptions


class Huber(Entry):
    """Squared up to a distance of `delta`, absolute beyond it."""

    class Values(Entry):
        delta: PositiveFloat = 1.0

    huber: Values


class LogCosh(Entry):
    """log cosh(prediction - label)."""

    log_cosh: NoOptions


class Hinge(Entry):
    """max(0, 1 - margin)."""

    hinge: NoOptions


class Exponential(Entry):
    """exp(-margin)."""

    exponential: NoOptions


class Cosine(Entry):
    """1 - cosine of the angle between the logits and the label."""

    cosine: NoOptions


class Poisson(Entry):
    """-log of the Poisson probability; `full` with log(label!), which moves no gradient."""

    class Values(Entry):
        full: bool = False

    poisson: Values


class Pinball(Entry):
    """The quantile loss, whose best prediction is the `quantile` of the labels."""

    class Values(Entry):
        quantile: _Share = 0.5

    pinball: Values


class OfPairs(Entry):
    """Of a loss of pairs: `lambda_weight: ndcg` weighs each by what its exchange does to NDCG."""

    lambda_weight: Optional[Literal["ndcg"]] = None


class PairwiseLogistic(Entry):
    """log(1 + exp(-d)) of each pair whose better row has a score higher by d."""

    pairwise_logistic: OfPairs


class PairwiseHinge(Entry):
    """max(0, 1 - d) of each pair."""

    pairwise_hinge: OfPairs


class PairwiseSoftZeroOne(Entry):
    """1 - sigmoid(d) of each pair."""

    pairwise_soft_zero_one: OfPairs


class ListSoftmax(Entry):
    """Cross-entropy of the softmax over a list, whose truth is the labels' shares."""

    softmax: NoOptions


class UniqueSoftmax(Entry):
    """For each row, cross-entropy against the rows with lower labels, times 2^label - 1."""

    unique_softmax: NoOptions


class ListMle(Entry):
    """-log of the probability of the order of the labels."""

    list_mle: NoOptions


class ApproxNdcg(Entry):
    """-NDCG of ranks that are made smooth with sigmoids; less so for a small `temperature`."""

    class Values(Entry):
        temperature: PositiveFloat = 0.1

    approx_ndcg: Values


Loss = Union[
    SigmoidCrossEntropy,
    SoftmaxCrossEntropy,
    Focal,
    LogLoss,
    Squared,
    Absolute,
    Huber,
    LogCosh,
    Hinge,
    Exponential,
    Cosine,
    Poisson,
    Pinball,
    PairwiseLogistic,
    PairwiseHinge,
    PairwiseSoftZeroOne,
    ListSoftmax,
    UniqueSoftmax,
    ListMle,
    ApproxNdcg,
]


def name_of(loss: Loss) -> str:
    """The key of a loss in a spec, as in `huber`."""
    return next(iter(type(loss).model_fields))


def options_of(loss: Loss) -> Any:
    """What stands behind the key."""
    return getattr(loss, name_of(loss))


class _ShortForm:
    """In the JSON Schema, a loss may also be its name alone."""

    def __init__(self, names: tuple[str, ...]):
        self._names = names

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        return {"anyOf": [{"enum": list(self._names)}, handler(schema)]}


def _spelled(names: tuple[str, ...]) -> Callable[[Any], Any]:
    def spell(value: Any) -> Any:
        if isinstance(value, str):
            value = {value: {}}
        if isinstance(value, Entry):
            return value
        key = only_key(value)
        if not isinstance(value, dict) or key not in names:
            shown = key if isinstance(value, dict) and len(value) == 1 else value
            raise ValueError(
                f"got {value_text(shown)}, expected a loss of this head{did_you_mean(shown, names)}"
            )
        return value

    return spell


def loss_of(*models: type[Entry]) -> Any:
    """The type of a field that holds one of some losses, in either form."""
    names = tuple(next(iter(model.model_fields)) for model in models)
    tagged = tuple(Annotated[model, pydantic.Tag(name)] for model, name in zip(models, names))
    union: Any = models[0]
    if len(models) > 1:
        union = Annotated[Union[tagged], pydantic.Discriminator(only_key)]
    return Annotated[union, pydantic.BeforeValidator(_spelled(names)), _ShortForm(names)]
