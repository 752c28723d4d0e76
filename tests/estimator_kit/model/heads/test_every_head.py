"""What holds for every head with every metric that a spec can ask for.

The heads come from `HEADS`, and their metrics from the schemas of the heads. All heads share one
spec, one graph and one session.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.model.heads import joint, make_heads, streaming
from feature_specs.heads import HEADS, METRICS
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conformance import table
from tests.estimator_kit.model.heads.test_metric_meanings import choosable

pytestmark = pytest.mark.ci

ROWS = 120
STEPS = 2


def document():
    """All heads, and the heads that can have steps once more with steps."""
    heads = {head: head for head in HEADS}
    made = table.document(heads, ("wide", "steps"))
    for head, entry in made["objectives"].items():
        metrics = [low(item) for item in choosable(head)]
        if metrics:
            entry["metrics"] = metrics
        if any(HEADS[head].metric_field().choice(m).kind in HEADS[head].by_group for m in metrics):
            entry["group_by"] = "city"
    made["features"]["truth"] = {"dtype": "float32"}
    made["labels"]["binary"] = {**made["labels"]["binary"], "true_probability": "truth"}
    for head, entry in list(made["objectives"].items()):
        if "steps" not in HEADS[head].model_fields:
            continue
        others = {k: v for k, v in entry.items() if k not in ("metrics", "group_by")}
        made["objectives"][f"{head}_steps"] = {**others, "steps": STEPS}
        label = made["labels"][head]
        made["labels"][f"{head}_steps"] = {
            "dtype": label["dtype"], "shape": [STEPS, *label.get("shape", [])],
            "weight": f"{head}_weights",
        }  # fmt: skip
        made["features"][f"{head}_weights"] = {"dtype": "float32", "shape": [STEPS]}
    return made


def low(item):
    """A metric with a number that few rows reach: other predictions give other values."""
    if isinstance(item, str):
        return item
    return {name: 0.8 if isinstance(number, float) else 2 for name, number in item.items()}


def make_rows(objectives):
    rows = table.make_rows(ROWS, {head: head for head in HEADS})
    for i, row in enumerate(rows):
        row["truth"] = (i % 10) / 10
        for name in objectives:
            head = name.removesuffix("_steps")
            if name != head:
                other = rows[(i + 1) % ROWS][head]
                row[name] = [*row[head], *other] if head == "cosine" else [row[head], other]
                row[f"{head}_weights"] = [1.0, float(i % 3)]
    return rows


class Evaluation:
    """The metrics of all objectives for given logits, in batches of 50 rows."""

    def __init__(self):
        spec = feature_specs.parse(document())
        with tf.Graph().as_default() as graph:
            records = [writing.example(r).SerializeToString() for r in make_rows(spec.objectives)]
            self._records = np.array(records, object)
            self._fed = tf.compat.v1.placeholder(tf.string, [None])
            labels = joint.dense_labels(Transform(spec).features_and_labels(self._fed)[1])
            self.heads = make_heads(spec)
            self._logits = {
                name: tf.compat.v1.placeholder(tf.float32, [None, o.logits_dimension])
                for name, o in self.heads.items()
            }
            self._factor = tf.compat.v1.placeholder(tf.float32, [None])
            weights = joint.weights_of(self.heads, labels)
            factors = {n: tf.reshape(self._factor, [-1] + [1] * (w.shape.rank - 1))
                       for n, w in weights.items()}  # fmt: skip
            weights = {name: w * factors[name] for name, w in weights.items()}
            metrics = joint.metrics_of(self.heads, self._logits, labels, weights)
            self._values = {name: value for name, (value, _) in metrics.items()}
            self._totals = {each.objective: each.total for each in streaming.take(graph)}
            self._updates = [update for _, update in metrics.values()]
            self._begin = [
                tf.compat.v1.local_variables_initializer(), tf.compat.v1.tables_initializer(),
            ]  # fmt: skip
        self._session = tf.compat.v1.Session(graph=graph)

    def __call__(self, logits, weights=None):
        weights = np.ones(ROWS, "f") if weights is None else weights
        self._session.run(self._begin)
        for i in range(0, ROWS, 50):
            part = slice(i, i + 50)
            feed = {self._fed: self._records[part], self._factor: weights[part]}
            feed.update((self._logits[name], values[part]) for name, values in logits.items())
            self._session.run(self._updates, feed)
        return self._session.run([self._values, self._totals])


@pytest.fixture(scope="module")
def evaluation():
    return Evaluation()


def drawn(evaluation, seed):
    random = np.random.default_rng(seed)
    return {
        name: random.normal(size=(ROWS, objective.logits_dimension)).astype("f")
        for name, objective in evaluation.heads.items()
    }


@pytest.fixture(scope="module")
def usual(evaluation):
    """Logits with their metrics and totals."""
    logits = drawn(evaluation, 1)
    return (logits, *evaluation(logits))


def depends(name):
    kind = METRICS.get(name.partition("/")[0])  # None for a name with a number.
    return kind is None or kind.reads_predictions


def test_the_table_of_metrics_without_predictions(evaluation, usual):
    """Exactly they are the same for other predictions."""
    _, values, _ = usual
    assert all(np.isfinite(value) for value in values.values()), values
    others = [evaluation(drawn(evaluation, seed))[0] for seed in range(2, 6)]
    others.append(evaluation({name: 0 * each for name, each in drawn(evaluation, 1).items()})[0])
    changed = {n for n, v in values.items() if any(other[n] != v for other in others)}
    assert changed == {name for name in values if depends(name)}
    assert len(values) > 150 and set(HEADS) <= {name.partition("/")[2] for name in values}


@pytest.mark.parametrize("row", [0, 76])
def test_one_nan_prediction_makes_all_metrics_nan(evaluation, usual, row):
    logits, values, totals = usual
    broken = {name: each.copy() for name, each in logits.items()}
    for each in broken.values():
        each[row, -1] = np.nan  # One score of a row: a class, an item, a quantile, a step.
    if row == 0:  # Of the second step, row 0 has no weight.
        for name in broken:
            if name.endswith("_steps"):
                broken[name][row] = np.nan
    found, undefined = evaluation(broken)
    for name, value in found.items():
        assert np.isnan(value) if depends(name) else value == values[name], name
    for name, total in undefined.items():
        assert np.isnan(total).all() and not np.isnan(totals[name]).any(), name


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_rows_and_steps_without_weight_may_have_any_logits(evaluation, usual, value):
    logits, _, _ = usual
    weights = np.where(np.arange(ROWS) % 7 == 3, 0, 1).astype("f")
    expected, _ = evaluation(logits, weights)
    broken = {name: np.where(weights[:, None] > 0, each, value) for name, each in logits.items()}
    for name, each in broken.items():
        if name.endswith("_steps"):  # The second step of every third row has no weight.
            each[::3, each.shape[1] // STEPS :] = value
    found, _ = evaluation(broken, weights)
    for name, number in found.items():
        assert number == pytest.approx(expected[name], rel=1e-6), name


# The functions of the order of the logits of a row or of all rows, by the metrics of the tables.
OF_THE_ORDER = (
    "auc", "auc_precision_recall", "recall_at_precision", "precision_at_recall", "gauc", "mrr",
    "ndcg", "hit_rate", "recall", "coverage", "popularity_lift", "top_", "f1", "mean_iou",
)  # fmt: skip


@pytest.mark.parametrize("factor", [2.0**-90, 2.0**40, 2.0**99])
def test_metrics_of_the_order_do_not_depend_on_the_scale_of_logits(evaluation, usual, factor):
    logits, values, _ = usual
    scaled = {name: each * np.float32(factor) for name, each in logits.items()}
    found, _ = evaluation(scaled)
    compared = [
        name
        for name in values
        if name.startswith(OF_THE_ORDER)
        and not name.endswith(("/quantile", "/ordinal", "/survival"))
    ]
    assert len(compared) > 20
    for name in compared:
        assert found[name] == pytest.approx(values[name], rel=1e-12), name
