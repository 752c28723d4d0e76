"""The head `ranking` has the losses and metrics of TensorFlow Ranking.

The package has had no release since 2024, and declares that it needs TensorFlow before 2.16. So
only the environment of TensorFlow 2.15 has it (see the Makefile). Later ones skip this module.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance.table import losses_of_head
from tests.estimator_kit.model.heads.test_objectives import evaluate
from tests.estimator_kit.model.heads.test_ranking import LAMBDAS, losses_of, ranking

tfr = pytest.importorskip(
    "tensorflow_ranking",
    reason="TensorFlow Ranking is installed only with TensorFlow 2.15, the last one it supports",
)

NAMES = {
    "pairwise_logistic": "PairwiseLogisticLoss",
    "pairwise_hinge": "PairwiseHingeLoss",
    "pairwise_soft_zero_one": "PairwiseSoftZeroOneLoss",
    "softmax": "SoftmaxLoss",
    "unique_softmax": "UniqueSoftmaxLoss",
    "list_mle": "ListMLELoss",
    "approx_ndcg": "ApproxNDCGLoss",
}
LISTS = 40


def drawn():
    """The rows of 40 lists of 2 to 9 rows: group, scores, labels, weights.

    Lists of one length each go to the package together, because its losses of a list depend on the
    longest list of the batch. No scores are equal, as the package ranks equal scores at random.
    """
    rng = np.random.default_rng(23)
    for group in range(LISTS):
        n = 2 + group % 8
        labels = rng.integers(0, 5, n)
        labels[0] = labels[1] + 1
        yield (
            np.full(n, group), rng.normal(0, 2, n).astype("f"), labels.astype("f"),
            rng.uniform(0.5, 2, n).astype("f"),
        )  # fmt: skip


def of_the_package(loss, scores, labels, weights):
    name, options = (loss, {}) if isinstance(loss, str) else next(iter(loss.items()))
    kind = getattr(tfr.losses_impl, NAMES[name])
    if options:
        made = kind(name, lambda_weight=tfr.losses.create_ndcg_lambda_weight())
    else:
        made = kind(name)
    scores = made.get_logits(scores[None]) if name == "approx_ndcg" else scores[None]
    (value,), _ = made.compute_per_list(labels[None], scores, weights[None])
    if options:  # The package divides by the weights of pairs, and the kit by the weights of rows.
        _, (weight,) = made.compute_per_list(labels[None], scores, weights[None])
        better = labels[:, None] > labels[None, :]
        return float(value * weight) / (better * weights[:, None]).sum()
    return float(value)


@pytest.mark.parametrize("loss", [*losses_of_head("ranking"), *LAMBDAS])
def test_losses(loss):
    rows = list(drawn())
    if loss == "list_mle":  # Of equal labels, the package draws the order.
        rows = [(g, s, y + np.arange(len(y), dtype="f") / 100, w) for g, s, y, w in rows]
    if loss not in ("softmax", *LAMBDAS) and not str(loss).startswith("pairwise"):
        rows = [(g, s, y, np.ones_like(w)) for g, s, y, w in rows]
    got, _ = losses_of(loss, *(np.concatenate(part) for part in zip(*rows)))
    expected = [of_the_package(loss, s, y, w) for _, s, y, w in rows]
    np.testing.assert_allclose(got, expected, rtol=2e-5)


def test_metrics():
    rows = list(drawn())
    group, z, y, w = (np.concatenate(part) for part in zip(*rows))
    objective = ranking(metrics=[{"ndcg": 3}, {"ndcg": 50}, "mrr"])
    got = evaluate(objective, [(z[:, None], y, w)], groups=[group])
    for name, theirs in {
        "ndcg_at_3": tfr.keras.metrics.NDCGMetric(topn=3),
        "ndcg_at_50": tfr.keras.metrics.NDCGMetric(topn=50),
        "mrr": tfr.keras.metrics.MRRMetric(),
    }.items():
        values = []
        for _, scores, labels, _ in rows:
            theirs.reset_state()
            theirs.update_state(labels[None], scores[None])
            values.append(float(theirs.result()))
        assert got[name] == pytest.approx(np.mean(values), rel=1e-5), name
