"""Objectives of one head, computed together, have the results of each objective alone."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.model.heads import CODE, Head, joint, make_heads, score_bins, streaming, together
from estimator_kit.model.heads.base import Batch
from estimator_kit.model.modes import prediction
from feature_specs.heads import HEADS
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conformance import table
from tests.estimator_kit.model.heads.test_metric_meanings import choosable

pytestmark = pytest.mark.ci

v1 = tf.compat.v1

ROWS, SIZE = 90, 40
OF_ROWS = [h for h in HEADS if CODE[h].losses_and_weights is Head.losses_and_weights]


def spec_of(head, count):
    """`count` objectives of a head with all metrics of rows, and one with other settings."""
    names = {f"y{i}": head for i in range(count + 1)}
    made = table.document(names, ("wide",))
    metrics = [
        item for item in choosable(head)
        if HEADS[head].metric_field().choice(item).kind not in HEADS[head].by_group
    ]  # fmt: skip
    for name, entry in made["objectives"].items():
        if metrics:
            entry["metrics"] = metrics
        if name == f"y{count}":
            entry["reduction"] = "sum"
        else:
            entry["loss_weight"] = 0.5 + len(name)
    for name in names:
        made["labels"][name] = {**made["labels"][name], "weight": f"{name}_weight"}
        made["features"][f"{name}_weight"] = {"dtype": "float32"}
    spec = feature_specs.parse(made)
    rows = table.make_rows(ROWS, names)
    for number, row in enumerate(rows):
        row.update((f"{n}_weight", float((number * 7 + i) % 4)) for i, n in enumerate(names))
    return spec, np.array([writing.example(row).SerializeToString() for row in rows], object)


class Computed:
    """What a graph computes of objectives that are given in lists, each list by a separate call."""

    def __init__(self, spec, *calls):
        heads = make_heads(spec)
        with tf.Graph().as_default() as graph:
            self.records = v1.placeholder(tf.string, [None])
            labels = Transform(spec).features_and_labels(self.records)[1]
            self.logits = {
                n: v1.placeholder(tf.float32, [None, h.logits_dimension]) for n, h in heads.items()
            }
            self.updates, self.values, self.batch = [], {}, {}
            for names in calls:
                chosen = {name: heads[name] for name in names}
                given = chosen, self.logits, labels, joint.weights_of(chosen, labels)
                for name, (value, update) in joint.metrics_of(*given).items():
                    self.values[name] = value
                    self.updates.append(update)
                losses = joint.losses_of(*given)
                for name, loss in losses.items():
                    self.batch[f"loss/{name}"] = loss
                    self.batch[f"gradient/{name}"] = tf.gradients(loss, self.logits[name])[0]
                self.batch.update(joint.means_of(*given))
                nans = joint.nan_logits(*given)
                self.batch.update((f"nan/{name}", count) for name, count in nans.items())
                predictions = prediction.of_all(chosen, self.logits)
                self.batch.update(prediction.joined(predictions, ()))
            self.observed = {(e.objective, e.kind): e.total for e in streaming.take(graph)}
            self.begin = [v1.local_variables_initializer(), v1.tables_initializer()]
        self.graph, self._session = graph, v1.Session(graph=graph)

    def __call__(self, records, logits):
        self._session.run(self.begin)
        batches = []
        for i in range(0, ROWS, SIZE):
            feed = {self.logits[n]: values[i : i + SIZE] for n, values in logits.items()}
            feed[self.records] = records[i : i + SIZE]
            batches.append(self._session.run([self.batch, self.updates], feed)[0])
        return (*self._session.run([self.values, self.observed]), batches)


@pytest.mark.parametrize("head", OF_ROWS)
def test_each_objective_has_the_results_that_it_has_alone(head):
    spec, records = spec_of(head, 3)
    names = list(spec.objectives)
    as_one, each = Computed(spec, names), Computed(spec, *([name] for name in names))
    random = np.random.default_rng(1)
    logits = {
        name: random.normal(size=(ROWS, h.logits_dimension)).round(1).astype("f")
        for name, h in make_heads(spec).items()
    }
    for broken in (False, True):
        if broken:
            logits["y1"][6] = np.nan  # A row with a weight.
        values, observed, batches = as_one(records, logits)
        expected, expected_observed, expected_batches = each(records, logits)
        assert list(values) == list(expected)
        for name, value in expected.items():
            np.testing.assert_array_equal(values[name], value, err_msg=name)
        assert observed.keys() == expected_observed.keys()
        for name, total in expected_observed.items():
            np.testing.assert_array_equal(observed[name], total, err_msg=str(name))
        assert np.isnan(values["loss/y1"]) == broken and not np.isnan(values["loss/y2"])
        for found, wanted in zip(batches, expected_batches):
            assert found.keys() == wanted.keys()
            for name, value in wanted.items():
                if value.dtype == object:
                    assert (found[name] == value).all()
                else:
                    np.testing.assert_allclose(found[name], value, 1e-5, 1e-7, err_msg=name)


def test_only_objectives_with_the_same_settings_are_computed_together():
    spec, _ = spec_of("binary", 3)
    heads = make_heads(spec)
    assert together.alike(heads, dict.fromkeys(heads)) == [["y0", "y1", "y2"], ["y3"]]
    vars(heads["y1"])["row_losses"] = None  # As a model of Keras with its own loss has it.
    assert together.alike(heads, dict.fromkeys(heads)) == [["y0", "y2"], ["y1"], ["y3"]]
    other = {**dict.fromkeys(heads), "y2": "another label"}
    assert together.alike(heads, other) == [["y0"], ["y1"], ["y2"], ["y3"]]


def groups(count):
    """A group of binary objectives, with placeholders."""
    names = {f"y{i}": "binary" for i in range(count)}
    heads = make_heads(feature_specs.parse(table.document(names, ("wide",))))
    batches = {
        name: Batch(
            v1.placeholder(tf.float32, [None, 1]),
            v1.placeholder(tf.float32, [None]),
            v1.placeholder(tf.float32, [None]),
        )
        for name in heads
    }
    (group,) = together.groups_of(heads, batches)
    return group


def joining_bins(head, batch):
    """The AUC of bins with little room, so that batches join them, at other times by objective."""
    positive = batch.labels * batch.weights
    rows = tf.stack([positive, batch.weights - positive], axis=1)
    bins, update = score_bins.streaming_bins(batch.logits[:, 0], rows, "bins", capacity=64)
    return {"auc": (score_bins.area_under_roc(bins.counts), update)}


def test_rows_that_are_joined_are_joined_as_alone():
    random, count = np.random.default_rng(2), 3
    scores = random.normal(size=(count, 10, 30, 1)).astype("f")
    labels = random.integers(0, 2, (count, 10, 30))
    weights = random.integers(0, 2, (count, 10, 30)) | np.array([1, 0, 0])[:, None, None]
    found = []
    for alone in (False, True):
        with tf.Graph().as_default(), v1.Session() as session:
            group = groups(count)
            made = {}
            for part in [[name] for name in group.heads] if alone else [list(group.heads)]:
                some = together.Group(
                    {name: group.heads[name] for name in part},
                    {name: group.batches[name] for name in part},
                )
                made.update(together.metrics_of(some, joining_bins))
            metrics = [made[name]["auc"] for name in group.heads]
            session.run(v1.local_variables_initializer())
            for step in range(10):
                feed = {}
                for number, batch in enumerate(group.batches.values()):
                    parts = (scores, labels, weights)
                    feed.update(zip(batch[:3], (part[number, step] for part in parts)))
                session.run([update for _, update in metrics], feed)
            found.append(session.run([value for value, _ in metrics]))
    assert found[0] == found[1] and len(set(found[0])) == count


def test_one_more_objective_adds_few_ops():
    ops = {}
    for count in (2, 12):
        with tf.Graph().as_default() as graph:
            group = groups(count)
            logits, labels, weights = (
                dict(zip(group.heads, part)) for part in list(zip(*group.batches.values()))[:3]
            )
            before = len(graph.get_operations())
            total = tf.add_n([*joint.losses_of(group.heads, logits, labels, weights).values()])
            tf.gradients(total, [*logits.values()])
            joint.means_of(group.heads, logits, labels, weights)
            joint.metrics_of(group.heads, logits, labels, weights)
            ops[count] = len(graph.get_operations()) - before
    assert (ops[12] - ops[2]) / 10 < 10


def test_losses_that_are_apart_share_no_gradients():
    with tf.Graph().as_default():
        group = groups(2)
        logits, labels, weights = (
            dict(zip(group.heads, part)) for part in list(zip(*group.batches.values()))[:3]
        )
        losses = joint.losses_of(group.heads, logits, labels, weights, apart=True)
        own, other = tf.gradients(losses["y0"], [logits["y0"], logits["y1"]])
    assert own is not None and other is None


def test_the_graph_is_freed():
    with tf.Graph().as_default() as graph:
        together.metrics_of(groups(2), joining_bins)
        there = weakref.ref(graph)
    del graph
    gc.collect()
    assert there() is None
