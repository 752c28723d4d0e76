"""Predictions that a change of the spec leaves alone stay as they were after a warm start.

Each case changes one thing: words of a column, columns, classes, objectives or tasks in another
order, one more, one less or one with another name. `change_of(model, change)` gives the largest
change of a probability that should stay, or the refusal.
"""

from __future__ import annotations

import copy
import functools
import logging
import tempfile
from typing import Any, Union

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints import model_outline, run_record
from estimator_kit.checkpoints.warm_start import taken_variables, warm_start
from estimator_kit.config.modes import command_of
from estimator_kit.model.places import input_places
from estimator_kit.model.places.places import without_objectives
from estimator_kit.models import MODELS
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conformance import table

v1 = tf.compat.v1

TASKS = ("aitm", "esmm")
ITEMS = ("gru4rec", "sasrec")
CLASSES = ["a", "b", "c", "d"]
WORDS = ["ann", "bob", "eve"]
ITEM_WORDS = ["a", "b", "c", "d", "e"]

# A number of the column is 0 in all rows, so a new or dropped weight of it changes no prediction.
ZEROS = {
    "features": {"zero": {"dtype": "float32"}, "zeros": {"dtype": "float32", "shape": "variable"}},
    "columns": {"a_zero": {"numeric": "zero"}, "a_zeros": {"sequence_numeric": "zeros"}},
}


def base(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The document and the parameters that the cases of a model start from."""
    params = dict(table.MODEL_CASES[name].params) if name in table.MODEL_CASES else {}
    if name in TASKS:
        heads = {"click": "binary", "buy": "binary", "give": "binary"}
        params["tasks"] = [*heads]
    elif name in ITEMS:
        heads = {"next_item": "next_item"}
    elif name == "two_tower":
        heads = {"click": "binary", "buy": "binary", "page": "ranking"}
    else:
        heads = {"click": "binary", "kind": "multi_class", "buy": "binary"}
    if name == "sasrec":
        params["width"] = 8  # The default is the width of the steps, which another column changes.
    whole = feature_specs.parse(table.document(heads, tuple(table.DOCUMENT["groups"])))
    found = copy.deepcopy(table.document(heads, MODELS[name](whole, params).groups()))
    for column, words in (("user", WORDS), ("item", ITEM_WORDS), ("seen", ITEM_WORDS)):
        if column in found["columns"]:
            del found["columns"][column]["hash_bucket"], found["columns"][column]["size"]
            found["columns"][column].update(vocabulary=column, list=[*words], oov_buckets=1)
    if "kind" in heads:
        found["labels"]["kind"]["vocabulary"] = [*CLASSES]
        found["objectives"]["kind"]["num_classes"] = 4
    if "click" in heads:
        found["labels"]["click"] = {"dtype": "string", "vocabulary": ["no", "yes"]}
    return found, params


def with_zeros(document: dict[str, Any], suffix: str = "") -> bool:
    """Adds a column of zeros to the groups that can have one; whether there are such groups."""
    places = {"deep": "a_zero", "item": "a_zero", "wide": "a_zero"}
    if "target" not in document["groups"]:  # Its columns pair with the steps.
        places["steps"] = "a_zeros"
    for group, column in places.items():
        if group in document["groups"]:
            kind, feature = next(iter(ZEROS["columns"][column].items()))
            document["columns"][column + suffix] = {kind: feature}
            document["features"][feature] = ZEROS["features"][feature]
            document["groups"][group].insert(0, column + suffix)
    return bool(places.keys() & document["groups"].keys())


def rename(entries: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if name == old else name: entry for name, entry in entries.items()}


def words(how, document, params, name):
    lists = [column["list"] for column in document["columns"].values() if "list" in column]
    for found in lists:
        found[:] = {
            "reordered": found[::-1], "added": ["new", *found],
            "removed": [w for w in found if w not in ("bob", "b", "oslo")],
            "renamed": [w + "_2" if w in ("bob", "b", "oslo") else w for w in found],
        }[how]  # fmt: skip
    return bool(lists)


def columns(how, document, params, name):
    if how == "reordered":
        for group in document["groups"].values():
            group.reverse()
        return True
    # Before, the spec had the column if it is removed or renamed.
    changed = copy.deepcopy(document) if how == "removed" else document
    return with_zeros(changed, "_2" if how == "renamed" else "")


def classes(how, document, params, name):
    if "kind" not in document["labels"]:
        return False
    found = {
        "reordered": ["d", "a", "c", "b"], "added": ["n", *CLASSES],
        "removed": ["a", "c", "d"], "renamed": ["a", "b_2", "c", "d"],
    }[how]  # fmt: skip
    document["labels"]["kind"]["vocabulary"] = found
    document["objectives"]["kind"]["num_classes"] = len(found)
    return True


def binary(how, document, params, name):
    """The two words of a binary label."""
    if "click" in document["labels"] and how in ("reordered", "renamed"):
        found = ["yes", "no"] if how == "reordered" else ["no", "y"]
        document["labels"]["click"]["vocabulary"] = found
        return True
    return False


def objectives(how, document, params, name):
    if name in ITEMS:
        return False  # They learn one objective.
    last = [*document["objectives"]][-1]
    if how == "reordered":
        document["objectives"] = dict(reversed(document["objectives"].items()))
    elif how == "added":
        document["labels"]["more"] = {"dtype": "int64"}
        document["objectives"]["more"] = {"head": "binary"}
        params["tasks"] = [*params.get("tasks", ()), "more"]
    elif how == "removed":
        del document["objectives"][last], document["labels"][last]
        params["tasks"] = params.get("tasks", [])[:-1]
    else:
        for section in ("labels", "objectives"):
            document[section] = rename(document[section], last, "other")
        params["tasks"] = [*params.get("tasks", [])[:-1], "other"]
    if name not in TASKS:
        params.pop("tasks", None)
    return True


def tasks(how, document, params, name):
    """At the start of the sequence; `objectives` changes its end."""
    if name not in TASKS:
        return False
    first, *rest = params["tasks"]
    if how == "reordered":
        params["tasks"] = [first, *rest[::-1]]
    elif how == "added":
        document["labels"]["more"] = {"dtype": "int64"}
        document["objectives"]["more"] = {"head": "binary"}
        params["tasks"] = ["more", first, *rest]
    elif how == "removed":
        del document["objectives"][first], document["labels"][first]
        params["tasks"] = rest
    else:
        for section in ("labels", "objectives"):
            document[section] = rename(document[section], first, "other")
        params["tasks"] = ["other", *rest]
    return True


KINDS = {"words": words, "columns": columns, "classes": classes, "binary": binary,
         "objectives": objectives, "tasks": tasks}  # fmt: skip
HOW = ("reordered", "added", "removed", "renamed")
CHANGES = [f"{kind} {how}" for kind in KINDS for how in HOW]


def make_rows() -> list[dict[str, Any]]:
    """Rows without the words that cases remove or rename."""
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(20):
        steps = rng.choice([*"acde"], size=rng.integers(0, 4)).tolist()
        rows.append(
            {
                "price": float(rng.uniform(0, 9)),
                "user": str(rng.choice(["ann", "eve", "zed"])),
                "city": str(rng.choice(["rome", "lima"])),
                "item": str(rng.choice([*"acde"])),
                "tags": rng.choice([*"abcd"], size=rng.integers(0, 4)).tolist(),
                "seen": steps,
                "stay": [float(x) for x in rng.uniform(0, 2, len(steps))],
                "zero": 0.0,
                "zeros": [0.0] * len(steps),
            }
        )
    return rows


def ask(model: Any, values: Any, save: str = "") -> dict[str, np.ndarray]:
    """Predictions after the variables got `values(outline, initial values by name)`."""
    records = [writing.example(row).SerializeToString() for row in make_rows()]
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.set_random_seed(1)
        v1.train.get_or_create_global_step()
        # As in training, the graph does not know the number of rows.
        rows = v1.placeholder_with_default(tf.constant(records), [None])
        features = Transform(model.spec).features(rows)
        joint = model(features, None, "infer").predictions
        found = {one.op.name: one for one in v1.global_variables()}
        shapes = {name: tuple(one.shape) for name, one in found.items() if name != "global_step"}
        names = frozenset(shapes)
        items = any(one.items_column for one in model.spec.objectives.values())
        # A prediction of items makes scores from factors, without logits.
        places = model_outline.weights_of(model).places if items else input_places.find(graph)
        outline = model_outline.ModelOutline(shapes, names, names, frozenset(), places=places)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        now = values(outline, session.run(found))
        session.run(
            [found[name].initializer for name in now],
            {found[name].initializer.inputs[1]: value for name, value in now.items()},
        )
        if save:
            v1.train.Saver().save(session, save)
        return session.run(joint)


def drawn(current: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(2)
    values = {}
    for name in sorted(current.keys() - {"global_step"}):
        values[name] = (rng.normal(size=current[name].shape) * 0.5).astype(np.float32)
        if name.endswith("moving_variance"):
            values[name] = np.abs(values[name]) + np.float32(0.5)
    return values


@functools.cache
def old_model(name: str, has_zeros: bool) -> Any:
    """A model directory, its spec and its predictions."""
    document, params = base(name)
    if has_zeros:
        with_zeros(document)
    model = MODELS[name](feature_specs.parse(document), params)
    folder = tempfile.mkdtemp()
    config = ek.ExperimentConfig(
        mode="train", spec="s", model_dir=folder, train_files=("t",), max_steps=1
    )

    def values(outline, current):
        run_record.write_record(command_of(config), model.spec, outline.places)
        return drawn(current)

    return folder, model.spec, ask(model, values, save=f"{folder}/model.ckpt-0")


def answers(spec: Any, predictions: dict[str, np.ndarray], name: str) -> dict[Any, np.ndarray]:
    """The logit of each class or item of an objective, by its word; of a number by its name."""
    objective = spec.objectives[name]
    keys = (f"{name}/logits", f"{name}/scores", "logits", "scores")
    logits = next(predictions[key] for key in keys if key in predictions)
    if objective.items_column is not None:
        words = spec.columns[objective.items_column].row_names(spec)
    elif objective.head == "multi_class":
        words = spec.labels[name].vocabulary
    elif objective.head == "binary":
        words = spec.labels[name].vocabulary or (0, 1)
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    else:
        return {name: logits[:, 0]}
    return dict(zip(words, logits.T))


def largest_change(before: Any, now: Any) -> float:
    """Of the probabilities of the common classes, given that it is one of them, or of numbers."""
    found = [0.0]
    for name in before[0].objectives:
        if name in now[0].objectives:
            old, new = (answers(*one, name) for one in (before, now))
            common = [word for word in old if word in new]
            values = [np.stack([one[word] for word in common], axis=1) for one in (old, new)]
            if len(common) > 1:
                values = [np.exp(v) / np.exp(v).sum(axis=1, keepdims=True) for v in values]
            found.append(float(np.abs(values[0] - values[1]).max()))
    return max(found)


def change_of(name: str, change: str) -> Union[float, str, None]:
    """The largest change of a prediction that should stay, a refusal, or None: no such change."""
    kind, how = change.split()
    document, params = base(name)
    if not KINDS[kind](how, document, params, name):
        return None
    has_zeros = kind == "columns" and how in ("removed", "renamed")
    folder, old, expected = old_model(name, has_zeros)
    new = MODELS[name](feature_specs.parse(document), params)

    def values(outline, current):
        start = warm_start.plan(folder, outline, new.spec)
        return dict(start.values(current.__getitem__))

    try:
        found = ask(new, values)
    except ek.CheckpointError as error:
        return str(error)
    return largest_change((old, expected), (new.spec, found))


def warnings_of(caplog) -> list[str]:
    """The warnings of the kit. TensorFlow logs deprecations, too."""
    return [r.getMessage() for r in caplog.records if r.name.startswith("estimator_kit")]


# Changes that no weights can follow. All others must leave the predictions as they were.
REFUSED = {
    # The gate of the shared experts mixes the experts of all objectives.
    **{("ple", f"objectives {how}"): "gate_shared" for how in ("added", "removed", "renamed")},
    # What a task learns depends on the tasks before it.
    **{(name, f"tasks {how}"): "tower_buy/" for name in TASKS for how in HOW},
}


def case(name: str, change: str) -> Any:
    is_quick = (name, change) in QUICK
    return pytest.param(name, change, marks=() if is_quick else pytest.mark.nightly)


QUICK = {
    ("fm", "classes reordered"),
    ("deepfm", "objectives reordered"),
    ("mmoe", "classes added"),
    ("mmoe", "objectives added"),
    ("ple", "objectives reordered"),
    ("ple", "objectives added"),
    ("esmm", "tasks reordered"),
    ("wide_deep", "binary reordered"),
    ("linear", "columns reordered"),
    ("two_tower", "binary reordered"),
}


@pytest.mark.parametrize(
    ("name", "change"), [case(name, change) for name in MODELS for change in CHANGES]
)
def test_predictions_stay_or_the_start_is_refused(name, change, caplog):
    with caplog.at_level(logging.WARNING, "estimator_kit"):
        found = change_of(name, change)
    if found is None:
        pytest.skip(f"{name} has no {change.split()[0]}")
    refusal = REFUSED.get((name, change))
    if change.startswith("binary"):
        refusal = "objectives.click"
    if refusal is not None:
        assert isinstance(found, str) and refusal in found
    else:
        assert found < 1e-6
        assert warnings_of(caplog) == []


@pytest.mark.parametrize(
    ("name", "change", "refusal"),
    [
        ("fm", "classes reordered", None),
        ("wide_deep", "objectives reordered", None),
        ("mmoe", "classes added", None),
        ("mmoe", "objectives removed", None),
        ("cgc", "objectives reordered", None),
        ("dnn", "columns reordered", None),
        (
            "ple",
            "objectives reordered",
            "dnn/level_0/gate_shared/kernel: it means something else: the source has no record of "
            "which objectives it belongs to, and the objectives changed",
        ),
        ("fm", "binary reordered", "objectives.click: its logits were: yes and not no; and are: "),
    ],
)  # fmt: skip
def test_the_record_of_an_earlier_version_knows_only_columns(name, change, refusal, monkeypatch):
    kept = taken_variables.kept_places

    def without(source):
        return {
            variable: tuple(without_objectives(axis) for axis in axes)
            for variable, axes in kept(source).items()
        }

    monkeypatch.setattr(taken_variables, "kept_places", without)
    found = change_of(name, change)
    if refusal is None:
        assert found < 1e-6
    else:
        assert refusal in found


class Own(ek.ModelFn):
    """Layers whose names the kit does not know."""

    def groups(self):
        return ("deep",)

    def logits(self, features, mode):
        hidden = ek.dense_layer(self.dense_input(features, "deep"), 4, "first", tf.nn.relu)
        return ek.dense_layer(hidden, self.logits_dimension, "last")


class Untraced(Own):
    """The kit cannot see through the last op."""

    def logits(self, features, mode):
        return tf.cumsum(super().logits(features, mode), axis=1, reverse=True)


@pytest.mark.parametrize("change", ["classes reordered", "objectives added"])
def test_own_layers_may_have_any_names(change, monkeypatch):
    monkeypatch.setitem(MODELS, "own", Own)
    assert change_of("own", change) < 1e-6


def test_outputs_that_cannot_be_traced_are_named_if_they_changed(monkeypatch, caplog):
    monkeypatch.setitem(MODELS, "untraced", Untraced)
    with caplog.at_level(logging.WARNING, "estimator_kit"):
        assert change_of("untraced", "words reordered") < 1e-6
    assert warnings_of(caplog) == []
    assert "  objectives.click: its logits mean" in change_of("untraced", "objectives reordered")
    *_, problem, remedy = change_of("untraced", "classes reordered").splitlines()
    assert problem == (
        "  objectives.kind: its logits mean something else, and the kit cannot trace which weights "
        "make them"
    )
    assert remedy == "Use --warm_start_vars to take only variables that fit."
