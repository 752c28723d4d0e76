"""Signatures that read a part of the features accept records without the other ones."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.exporters.saved_model_graph import features_of_signatures
from estimator_kit.exporters.writer import make_graph
from estimator_kit.model.names import PREDICT_EXAMPLES, PREDICT_RAW
from estimator_kit.models import MODELS
from input_pipelines.record_files import writing
from tests.conftest import make_rows

TOWERS = {"hidden_units": [4], "dimension": 3, "item_id": None}
USER = ["price", "tags"]
ITEM = ["user", "city"]


@pytest.fixture
def towers(document):
    """A user of `price` and `tags`, an item of `user` and `city`; all but `tags` are required."""
    document["groups"] = {"user": ["price", "tag_emb"], "item": ["user_emb", "city_hot"]}
    document["ignored"] = []
    del document["columns"]["city_x_tag"]
    del document["labels"]["buy"], document["objectives"]["buy"]
    for name in ("price", "user", "city"):
        document["features"][name].pop("default", None)
    return feature_specs.parse(document)


class Session:
    """The signatures of a model in a session."""

    def __init__(self, model, spec):
        self._graph = tf.Graph()
        with self._graph.as_default():
            self.made = make_graph(model, spec, None, PREDICT_EXAMPLES)
            self.meta = tf.compat.v1.train.export_meta_graph()
            for name, signature in self.made.signatures.items():
                self.meta.signature_def[name].CopyFrom(signature)
            self._session = tf.compat.v1.Session()
            self._session.run(tf.compat.v1.global_variables_initializer())
            self._session.run(tf.compat.v1.tables_initializer())

    def ask(self, name, records, whole=False):
        signature = (self.made.feature_signatures if whole else self.made.signatures)[name]
        (info,) = signature.inputs.values()
        outputs = {key: made.name for key, made in signature.outputs.items()}
        return self._session.run(outputs, {info.name: np.array(records, object)})


def serialized(rows, names):
    made = [{name: row[name] for name in names if row[name] is not None} for row in rows]
    return [writing.example(row).SerializeToString() for row in made]


def test_a_user_vector_needs_no_item(towers):
    session = Session(MODELS["two_tower"](towers, TOWERS), towers)
    rows = [{**row, "user": row["user"] or "ann"} for row in make_rows(5)]
    whole = serialized(rows, [*USER, *ITEM])
    joint = session.ask(PREDICT_EXAMPLES, whole, whole=True)
    for name, read, other in (("user_vector", USER, ITEM), ("item_vector", ITEM, USER)):
        found = session.ask(name, serialized(rows, read))[name]
        np.testing.assert_allclose(found, joint[name], rtol=1e-6)
        np.testing.assert_array_equal(session.ask(name, whole)[name], found)
        with pytest.raises(tf.errors.InvalidArgumentError, match="is required but could not be f"):
            session.ask(name, serialized(rows, other))
    for name in ("predict/click", "classify/click", "serving_default", PREDICT_EXAMPLES):
        with pytest.raises(tf.errors.InvalidArgumentError, match="is required but could not be f"):
            session.ask(name, serialized(rows, USER))
    needs = session.made.needs
    assert needs["user_vector"] == tuple(USER) and needs["item_vector"] == tuple(ITEM)
    assert needs["serving_default"] == needs["regress/click"] == towers.used_features()
    assert PREDICT_RAW not in needs
    # What the graph says is the same.
    read = features_of_signatures(session.meta, towers)
    assert {name: sorted(needs[name]) for name in needs} == {name: read[name] for name in needs}


class TwoTasks(ek.ModelFn):
    """One tower for each task, with groups that share a vocabulary."""

    def logits(self, features, mode):
        return {
            name: ek.dense_layer(self.dense_input(features, name), 1, name)
            for name in ("click", "buy")
        }


def test_each_task_needs_its_features_and_shares_tables(document):
    document["groups"] = {"click": ["city_hot", "price"], "buy": ["city_hot", "user_emb"]}
    document["ignored"] = []
    for name in ("city_x_tag", "tag", "tag_emb"):
        document["columns"].pop(name, None)
    document["features"] = {n: f for n, f in document["features"].items() if n != "tags"}
    document["features"]["price"].pop("default", None)
    spec = feature_specs.parse(document)
    session = Session(TwoTasks(spec), spec)
    needs = session.made.needs
    assert needs["predict/click"] == ("price", "city") and needs["predict/buy"] == ("user", "city")
    rows = [{"price": 2.0, "user": None, "city": city} for city in ("rome", "oslo", "?")]
    whole = session.ask("predict/buy", serialized(rows, ["price", "city"]), whole=True)
    found = session.ask("predict/buy", serialized(rows, ["city"]))
    for key, values in whole.items():
        np.testing.assert_array_equal(found[key], values)
    found = session.ask("classify/buy", serialized(rows, ["city"]))["scores"]
    np.testing.assert_array_equal(found, whole["probabilities"])
    ops = [op.type for op in session._graph.get_operations()]
    assert sum("HashTable" in op and "Lookup" not in op for op in ops) == 1


def test_signatures_that_read_all_required_features_stay_as_they_are(document):
    spec = feature_specs.parse(document)
    session = Session(MODELS["dnn"](spec, {"hidden_units": [4]}), spec)
    assert session.made.signatures == session.made.feature_signatures
