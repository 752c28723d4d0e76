"""The head `ranking` and its losses of lists. This module does not import TensorFlow."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Optional

import pydantic
from pydantic import Field

from feature_specs.entry import Entry, PositiveFloat, field
from feature_specs.heads import metrics as kinds
from feature_specs.heads.base import HeadEntry
from feature_specs.heads.losses import LossEntry, NoOptions, loss_of
from feature_specs.heads.metrics import MetricChoice, MetricKind, metrics_of

LISTS = MetricKind(
    "lists",
    "The number of lists that `loss` counts.",
    reads_predictions=False,
)
ROWS_WITHOUT_ORDER_SHARE = MetricKind(
    "rows_without_order_share",
    "The share of the rows that are in no list: they are alone in their group, or all labels of "
    "the group are equal.",
    reads_predictions=False,
)


# The largest label for losses that compute 2^label, so that sums of such numbers fit into a
# float32.
LARGEST_GRADE = 30


class OfPairs(Entry):
    """The options of a pairwise loss."""

    lambda_weight: Optional[Literal["ndcg"]] = Field(
        None,
        description="`ndcg` weights each pair by the change of NDCG if the two rows swapped places "
        "(LambdaLoss; Wang et al., 2018).",
    )


class PairwiseLogistic(LossEntry):
    """log(1 + exp(-d)) for each pair of rows in which the better row's score is higher by d.

    See RankNet (Burges et al., "Learning to Rank using Gradient Descent", 2005).
    """

    pairwise_logistic: OfPairs = Field(
        description="log(1 + exp(-d)) for each pair, where d is the score of the better row minus "
        "the score of the other row."
    )


class PairwiseHinge(LossEntry):
    """max(0, 1 - d) for each pair of rows in which the better row's score is higher by d.

    See Joachims, "Optimizing Search Engines using Clickthrough Data", 2002.
    """

    pairwise_hinge: OfPairs = Field(
        description="max(0, 1 - d) for each pair, where d is the score of the better row minus the "
        "score of the other row."
    )


class PairwiseSoftZeroOne(LossEntry):
    """1 - sigmoid(d) for each pair of rows in which the better row's score is higher by d."""

    pairwise_soft_zero_one: OfPairs = Field(
        description="1 - sigmoid(d) for each pair, where d is the score of the better row minus "
        "the score of the other row."
    )


class ListSoftmax(LossEntry):
    """Cross-entropy between the softmax of the scores of a list and its labels divided by their
    sum.

    See ListNet (Cao et al., "Learning to Rank: From Pairwise Approach to Listwise Approach", 2007).
    """

    softmax: NoOptions = Field(
        description="Cross-entropy between the softmax of the scores of a list and its labels "
        "divided by their sum."
    )


class UniqueSoftmax(LossEntry):
    """For each row, softmax cross-entropy against the rows with lower labels, times 2^label - 1.

    See Zhu & Klabjan, "Listwise Learning to Rank by Exploring Unique Ratings", 2020.
    """

    unique_softmax: NoOptions = Field(
        description="For each row, softmax cross-entropy against the rows with lower labels, times "
        "2^label - 1."
    )


class ListMle(LossEntry):
    """The negative log-probability of the order of the labels, under the scores.

    See ListMLE (Xia et al., "Listwise Approach to Learning to Rank", 2008). Rows with equal labels
    are treated by Efron's approximation (1977), close to the mean over their orders.
    """

    list_mle: NoOptions = Field(
        description="The negative log-probability of the order of the labels, under the scores."
    )


class ApproxNdcg(LossEntry):
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

    def negative(self, objective: str) -> Optional[str]:
        return f"approx_ndcg of objective {objective!r} always is. Use another loss."


class Ranking(HeadEntry):
    """The order of the rows of a group, from one logit: a score to sort the rows by.

    Labels are grades of relevance, 0 or more. The rows of a group in a batch form a list. NDCG uses
    the gain 2^label - 1. `estimator_kit.model.heads.list_losses` computes the losses.
    """

    head: Literal["ranking"] = field(
        changes="weights outputs training scores",
        description="The order of the rows of a group, from one logit per row.",
    )
    group_by: str = field(
        changes="rows values training scores",
        description="The string or int64 feature that names the group of a row, such as the id of "
        "a query, session or user.",
    )
    loss: loss_of(  # type: ignore[valid-type]
        PairwiseLogistic,
        PairwiseHinge,
        PairwiseSoftZeroOne,
        ListSoftmax,
        UniqueSoftmax,
        ListMle,
        ApproxNdcg,
    ) = field(
        PairwiseLogistic.default(),
        changes="training scores",
        description="The loss of a list. The default is `pairwise_logistic`.",
    )
    reduction: Literal["mean", "sum"] = field(
        "mean",
        changes="training scores",
        description="How the losses of lists become the loss of a batch: `mean` divides their "
        "weighted sum by the sum of the weights of the lists, and `sum` leaves it as it is.",
    )
    metrics: metrics_of(kinds.MRR, kinds.NDCG, kinds.HIT_RATE) = field(  # type: ignore[valid-type]
        ({"ndcg": 10},),
        changes="nothing",
        description="Metrics in addition to the default metrics: `mrr`, `{ndcg: 10}` and "
        "`{hit_rate: 10}`.",
    )

    always = (
        kinds.LOSS,
        kinds.WEIGHT_SUM,
        kinds.LABEL_MEAN,
        LISTS,
        ROWS_WITHOUT_ORDER_SHARE,
    )
    main = (MetricChoice(kinds.NDCG, 10),)
    sometimes = kinds.WITH_GROUPS
    by_group = (kinds.MRR, kinds.NDCG, kinds.HIT_RATE)
    compares = "the rows of a group"
    ranks: ClassVar[bool] = True

    @property
    def label_bounds(self) -> tuple[float, Optional[float]]:
        powers = isinstance(self.loss, UniqueSoftmax) or (
            getattr(self.loss.options, "lambda_weight", None) is not None
        )
        return 0, LARGEST_GRADE if powers else None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _check_group_by(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("group_by") is None:
            raise ValueError(
                "the head ranking needs group_by. Add the feature that names the group of a row, "
                "such as the id of a query, session or user."
            )
        return values
