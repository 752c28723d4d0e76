"""The losses that an objective of a spec can choose, one frozen model each.

    loss: huber                       # with its default options
    loss: {huber: {delta: 0.5}}

`loss_of(...)` returns the type of a head's field `loss`. The type accepts the given losses in both
forms. `estimator_kit.model.heads.losses` computes the losses. In the formulas, y is the label
and p is the predicted probability. This module does not import TensorFlow.
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
    """The options of a loss that has none: `{}`."""


class SigmoidCrossEntropy(Entry):
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


class SoftmaxCrossEntropy(Entry):
    """Cross-entropy of the softmax: -log p, with p = softmax(logits)[label]."""

    class Values(Entry):
        """The options of `softmax_cross_entropy`."""

        label_smoothing: Annotated[float, Field(ge=0, lt=1)] = Field(
            0.0,
            description="Moves each label by this share towards 1/n for n classes (Szegedy et al., "
            "2016). A number in [0, 1).",
        )

    softmax_cross_entropy: Values = Field(description="-log p, with p = softmax(logits)[label].")


class Focal(Entry):
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


class LogLoss(Entry):
    """-y log(p + epsilon) - (1 - y) log(1 - p + epsilon), as `tf.compat.v1.losses.log_loss`."""

    class Values(Entry):
        """The options of `log_loss`."""

        epsilon: Annotated[float, Field(gt=0, le=0.1)] = Field(
            1e-7, description="The number that is added to avoid log 0. In (0, 0.1]."
        )

    log_loss: Values = Field(
        description="-y log(p + epsilon) - (1 - y) log(1 - p + epsilon), with p = sigmoid(logit)."
    )


class Squared(Entry):
    """The squared error, (prediction - label)^2. For a probability it is the Brier score."""

    squared: NoOptions = Field(description="(prediction - label)^2.")


class Absolute(Entry):
    """The absolute error, |prediction - label|. The best prediction is the median."""

    absolute: NoOptions = Field(description="|prediction - label|.")


class Huber(Entry):
    """The Huber loss: d^2 / 2 for an error d <= delta, and delta (d - delta / 2) above it."""

    class Values(Entry):
        """The options of `huber`."""

        delta: PositiveFloat = Field(
            1.0,
            description="The error at which the loss changes from quadratic to linear, in the unit "
            "of the label.",
        )

    huber: Values = Field(
        description="d^2 / 2 for an error d <= delta, and delta (d - delta / 2) for larger errors."
    )


class LogCosh(Entry):
    """log cosh(prediction - label): quadratic for small errors and linear for large ones."""

    log_cosh: NoOptions = Field(description="log cosh(prediction - label).")


class Hinge(Entry):
    """The hinge loss, max(0, 1 - m), with the margin m = (2y - 1) logit."""

    hinge: NoOptions = Field(description="max(0, 1 - m), with the margin m = (2y - 1) logit.")


class Exponential(Entry):
    """The exponential loss of AdaBoost, exp(-m), with the margin m = (2y - 1) logit."""

    exponential: NoOptions = Field(description="exp(-m), with the margin m = (2y - 1) logit.")


class DelayedFeedback(Entry):
    """The likelihood of a class 1 that may still come, such as a late purchase.

    A row has the class 1 with the probability p. If it has, the time until this is seen has an
    exponential distribution, whose rate is the second logit.

    See Chapelle, "Modeling Delayed Feedback in Display Advertising", KDD 2014.
    """

    class Values(Entry):
        """The options of `delayed_feedback`."""

        elapsed: str = Field(
            description="The feature with the time since the start of the row, such as a click: "
            "until the class 1 was seen, or until the label was last looked up if it is 0."
        )
        delay: PositiveFloat = Field(
            1.0,
            description="A typical delay, in the unit of `elapsed`. Training starts from this "
            "delay for all rows. Delays below a thousandth of it count as a thousandth.",
        )

    delayed_feedback: Values = Field(
        description="-log(p l exp(-l t)) for the label 1, and -log(1 - p + p exp(-l t)) for the "
        "label 0, with p = sigmoid(logit), t = elapsed / delay, and the rate l, which is the "
        "exponential of a second logit."
    )


class Cosine(Entry):
    """1 - cos(a), where a is the angle between the logits and the label."""

    cosine: NoOptions = Field(
        description="1 - cos(a), where a is the angle between the logits and the label."
    )


class Poisson(Entry):
    """The negative log-likelihood of a Poisson distribution, exp(logit) - y logit."""

    class Values(Entry):
        """The options of `poisson`."""

        full: bool = Field(
            False,
            description="`true` adds log(y!) by Stirling's approximation. This changes the loss "
            "but not its gradient.",
        )

    poisson: Values = Field(description="exp(logit) - y logit.")


class Pinball(Entry):
    """The quantile loss: q d if the label is higher by d, and (1 - q) d if it is lower by d.

    The best prediction is the quantile q of the labels.
    """

    class Values(Entry):
        """The options of `pinball`."""

        quantile: _Share = Field(
            0.5, description="The quantile q, in (0, 1). 0.5 gives half the absolute error."
        )

    pinball: Values = Field(
        description="q d if the label is higher than the prediction by d, and (1 - q) d if it is "
        "lower by d."
    )


class OfPairs(Entry):
    """The options of a pairwise loss."""

    lambda_weight: Optional[Literal["ndcg"]] = Field(
        None,
        description="`ndcg` weights each pair by the change of NDCG if the two rows swapped places "
        "(LambdaLoss; Wang et al., 2018).",
    )


class PairwiseLogistic(Entry):
    """log(1 + exp(-d)) for each pair of rows in which the better row's score is higher by d.

    See RankNet (Burges et al., "Learning to Rank using Gradient Descent", 2005).
    """

    pairwise_logistic: OfPairs = Field(
        description="log(1 + exp(-d)) for each pair, where d is the score of the better row minus "
        "the score of the other row."
    )


class PairwiseHinge(Entry):
    """max(0, 1 - d) for each pair of rows in which the better row's score is higher by d.

    See Joachims, "Optimizing Search Engines using Clickthrough Data", 2002.
    """

    pairwise_hinge: OfPairs = Field(
        description="max(0, 1 - d) for each pair, where d is the score of the better row minus the "
        "score of the other row."
    )


class PairwiseSoftZeroOne(Entry):
    """1 - sigmoid(d) for each pair of rows in which the better row's score is higher by d."""

    pairwise_soft_zero_one: OfPairs = Field(
        description="1 - sigmoid(d) for each pair, where d is the score of the better row minus "
        "the score of the other row."
    )


class ListSoftmax(Entry):
    """Cross-entropy between the softmax of the scores of a list and its labels divided by their
    sum.

    See ListNet (Cao et al., "Learning to Rank: From Pairwise Approach to Listwise Approach", 2007).
    """

    softmax: NoOptions = Field(
        description="Cross-entropy between the softmax of the scores of a list and its labels "
        "divided by their sum."
    )


class UniqueSoftmax(Entry):
    """For each row, softmax cross-entropy against the rows with lower labels, times 2^label - 1.

    See Zhu & Klabjan, "Listwise Learning to Rank by Exploring Unique Ratings", 2020.
    """

    unique_softmax: NoOptions = Field(
        description="For each row, softmax cross-entropy against the rows with lower labels, times "
        "2^label - 1."
    )


class ListMle(Entry):
    """The negative log-probability of the order of the labels, under the scores.

    See ListMLE (Xia et al., "Listwise Approach to Learning to Rank", 2008). Rows with equal labels
    are treated by Efron's approximation (1977), close to the mean over their orders.
    """

    list_mle: NoOptions = Field(
        description="The negative log-probability of the order of the labels, under the scores."
    )


class ApproxNdcg(Entry):
    """The negative NDCG, with sigmoids as smooth approximations of the ranks.

    See ApproxNDCG (Qin et al., 2010; Bruch et al., 2019).
    """

    class Values(Entry):
        """The options of `approx_ndcg`."""

        temperature: PositiveFloat = Field(
            0.1,
            description="The divisor of the score differences. A smaller number is closer to NDCG "
            "but less smooth.",
        )

    approx_ndcg: Values = Field(
        description="The negative NDCG, with sigmoids as smooth approximations of the ranks."
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


class SampledSoftmax(Entry):
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


class Bpr(Entry):
    """The mean of -log sigmoid(s - s_j) over sampled items j, where s is the next item's score.

    See Rendle et al., "BPR: Bayesian Personalized Ranking from Implicit Feedback", 2009.
    """

    class Values(_OfNegatives):
        """The options of `bpr`."""

    bpr: Values = Field(
        description="The mean of -log sigmoid(s - s_j) over sampled items j, where s is the score "
        "of the next item."
    )


class BprMax(Entry):
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
    DelayedFeedback,
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
    SampledSoftmax,
    Bpr,
    BprMax,
]


def name_of(loss: Loss) -> str:
    """The key of a loss in a spec, such as `huber`."""
    return next(iter(type(loss).model_fields))


def options_of(loss: Loss) -> Any:
    """The value of the key: the options of the loss."""
    return getattr(loss, name_of(loss))


class _ShortForm:
    """In the JSON Schema, allows the name of a loss instead of its entry."""

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
    """The type of a field that holds one of the given losses, in either form."""
    names = tuple(next(iter(model.model_fields)) for model in models)
    tagged = tuple(Annotated[model, pydantic.Tag(name)] for model, name in zip(models, names))
    union: Any = models[0]
    if len(models) > 1:
        union = Annotated[Union[tagged], pydantic.Discriminator(only_key)]
    return Annotated[union, pydantic.BeforeValidator(_spelled(names)), _ShortForm(names)]
