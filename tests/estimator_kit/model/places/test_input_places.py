"""Which column owns which rows of a kernel, and that a model with other columns keeps its rest."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints import reading, run_record
from estimator_kit.checkpoints.warm_start import warm_start
from estimator_kit.checkpoints.warm_start.place_moves import (
    differences,
    from_json,
    place_move,
    to_json,
)
from estimator_kit.checkpoints.warm_start.row_moves import MeaningError
from estimator_kit.model.places import input_places
from estimator_kit.models import MODELS
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conformance import table

v1 = tf.compat.v1


def places_of(build):
    """The places of the variables of a graph over columns a (2 places), b (1) and c (2)."""
    with tf.Graph().as_default() as graph:
        columns = {}
        for name, width in {"a": 2, "b": 1, "c": 2}.items():
            columns[name] = v1.placeholder(tf.float32, [None, width])
            input_places.mark(name, columns[name])
        build(**columns)
        return input_places.find(graph)


def variable(*shape, name="w"):
    return v1.get_variable(name, shape)


ABC = (("a", 2), ("b", 1), ("c", 2))

# The models of `make test`. CI also takes one with steps and one with several objectives.
SLOW = ("dien", "ple")
QUICK = ("linear", "wide_deep", "xdeepfm")


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda a, b, c: tf.concat([a, b, c], 1) @ variable(5, 3), (ABC, None)),
        (lambda a, b, c: tf.nn.relu(tf.concat([a, b, c], 1) * 2.0) @ variable(5, 3), (ABC, None)),
        (lambda a, b, c: tf.concat([a, b], 1) + variable(3), (ABC[:2],)),
        # The output of a kernel that is added to its input has the input's places.
        (lambda a, b, c: a + tf.concat([b, c], 1) @ variable(3, 2), (ABC[1:], (("a", 2),))),
        (
            lambda a, b, c: tf.linalg.matmul(a, variable(3, 2), transpose_b=True),
            (None, (("a", 2),)),
        ),
        # What is behind a kernel is of no column.
        (lambda a, b, c: tf.concat([a @ tf.ones([2, 4]), c], 1) @ variable(6, 1),
         ((("", 4), ("c", 2)), None)),
        (lambda a, b, c: tf.tensordot(tf.stack([a, c], 1), variable(2, 3), 1), None),
        (
            lambda a, b, c: tf.reshape(tf.stack([a, c], 1), [-1, 4]) @ variable(4, 3),
            ((("a", 2), ("c", 2)), None),
        ),
        (
            lambda a, b, c: tf.reshape(tf.transpose(tf.stack([a, c], 1), [0, 2, 1]), [-1, 4])
            @ variable(4, 3),
            ((("a", 1), ("c", 1), ("a", 1), ("c", 1)), None),
        ),
        (lambda a, b, c: tf.split(tf.concat([a, b, c], 1), [3, 2], 1)[0] @ variable(3, 1),
         (ABC[:2], None)),
        (lambda a, b, c: tf.concat([a, b, c], 1)[:, 1:4] @ variable(3, 1),
         ((("a", 1), ("b", 1), ("c", 1)), None)),
        (lambda a, b, c: tf.einsum("nk,ekl->nel", a, variable(3, 2, 4)), (None, (("a", 2),), None)),
        (
            lambda a, b, c: tf.reshape(a[:, :, None] * c[:, None, :], [-1, 4]) @ variable(4, 1),
            ((("a*c", 2), ("a*c", 2)), None),
        ),
        (lambda a, b, c: (a - c) @ variable(2, 1), ((("a&c", 2),), None)),
        (lambda a, b, c: (b - 3.0) / variable(1, name="deviation") @ variable(1, 1),
         ((("b", 1),), None)),
        (lambda a, b, c: (tf.reduce_max(a, 1, keepdims=True) + b) @ variable(1, 1), None),
        (lambda a, b, c: tf.cumsum(tf.concat([a, c], 1), 1) @ variable(4, 1),
         ((("?Cumsum(a, c)", 4),), None)),
        # A list of one axis, which TensorFlow takes, too.
        (lambda a, b, c: tf.squeeze(tf.expand_dims(a, [1]), 1) @ variable(2, 1),
         ((("a", 2),), None)),
        # The walk cannot read a reshape of no values, and goes on.
        (lambda a, b, c: [tf.reshape(a[:, :0] + c[:, :0], [-1, 3]), a @ variable(2, 1)][1],
         ((("a", 2),), None)),
        (
            lambda a, b, c: tf.nn.conv2d(
                tf.reshape(c, [-1, 1, 2, 1]), variable(1, 1, 1, 3), 1, "SAME"
            ),
            None,
        ),
    ],
)  # fmt: skip
def test_places_of_the_axes_of_a_variable(build, expected):
    found = places_of(build)
    assert found.get("w") == expected


def test_a_keras_layer_over_fields():
    def build(a, b, c):
        fields = tf.stack([a, c], 1)
        units = tf.keras.layers.Dense(3, name="query")(fields)
        tf.keras.layers.Dense(1, name="logits")(tf.keras.layers.Flatten()(units))

    found = places_of(build)
    assert found == {"logits/kernel": ((("a", 3), ("c", 3)), None)}


@pytest.fixture
def spec(document, tmp_path):
    return ek.parse_spec(document, directory=tmp_path)


def test_moves_go_by_column_and_within_a_column_by_word(document, spec, tmp_path):
    document["columns"]["city"]["list"] = ["oslo", "bern", "rome"]
    now = ek.parse_spec(document, directory=tmp_path)

    def move(old, new):
        found = place_move(old, new, spec, now)
        return None if found is None else found.tolist()

    assert move((("price", 1), ("user_emb", 3)), (("price", 1), ("user_emb", 3))) is None
    assert move((("price", 1), ("user_emb", 2)), (("new", 2), ("user_emb", 2), ("price", 1))) == [
        -1, -1, 1, 2, 0,
    ]  # fmt: skip
    assert move((("price", 1), ("gone", 2), ("price", 1)), (("price", 1), ("price", 1))) == [0, 3]
    # city_hot had rome, oslo, and a bucket for other words. Now it has oslo, bern, rome and that
    # bucket.
    assert move((("price", 1), ("city_hot", 3)), (("city_hot", 4), ("price", 1))) == [
        2, -1, 1, 3, 0,
    ]  # fmt: skip
    # Another number of places of a column without words has nothing to go by.
    assert move((("price", 1), ("user_emb", 3)), (("price", 1), ("user_emb", 2))) == [0, -1, -1]
    with pytest.raises(MeaningError, match=r"it reads city_hot, but in the source it reads price$"):
        move((("price", 1),), (("city_hot", 4),))
    with pytest.raises(MeaningError, match=r"through Cumsum\(price\), which the kit cannot trace"):
        move((("?Cumsum(price)", 1),), (("?Cumsum(price, tag)", 1),))
    assert move((("?Cumsum(price)", 2),), (("?Cumsum(price)", 2),)) is None


def test_differences_are_those_that_shapes_do_not_show():
    old = {"k": ((("a", 1), ("b", 1)), None), "l": ((("a", 2),),), "gone": ((("a", 1),),)}
    assert from_json(to_json(old)) == old
    assert differences(old, old) == []
    assert differences(old, {**old, "l": ((("a", 2), ("b", 1)),)}) == []
    new = {"k": ((("b", 1), ("a", 1)), None), "l": ((("c", 2),),), "new": ((("a", 1),),)}
    assert differences(old, new) == [
        "k: its rows belonged to a, b; now to b, a",
        "l: its rows belonged to a; now to c",
    ]


# --- Every built-in model ------------------------------------------------------------------------


def specs_of(name, case):
    """A model's spec, and one with other columns and in another order that means the same."""
    objectives = case.objectives or {"binary": "binary", "multi_class": "multi_class"}
    whole = feature_specs.parse(table.document(objectives, tuple(table.DOCUMENT["groups"])))
    groups = MODELS[name](whole, case.params).groups()
    before = table.document(objectives, groups)
    after = copy.deepcopy(before)
    after["features"]["zero"] = {"dtype": "float32", "default": 0.0}
    after["columns"]["a_zero"] = {"numeric": "zero"}  # First in the order of names.
    if "city" in after["columns"]:
        after["columns"]["city"]["list"] = ["oslo", "bern", "rome"]
    for group in after["groups"]:
        after["groups"][group].reverse()
        if group in ("deep", "item"):
            after["groups"][group].append("a_zero")
    if not {"deep", "item"} & {*after["groups"]}:
        del after["columns"]["a_zero"], after["features"]["zero"]
    if "steps" in after["groups"] and "target" not in after["groups"]:
        after["features"]["zeros"] = {"dtype": "float32", "shape": "variable"}
        after["columns"]["a_zeros"] = {"sequence_numeric": "zeros"}
        after["groups"]["steps"].append("a_zeros")
    return feature_specs.parse(before), feature_specs.parse(after), objectives


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=() if name in QUICK else pytest.mark.ci if name in SLOW else pytest.mark.nightly,
        )
        for name in MODELS
    ],
)
def test_columns_that_are_added_and_moved_leave_the_model_as_it_was(name, tmp_path):
    case = table.MODEL_CASES[name]
    # Without the parameter `width`, sasrec is as wide as the steps, and another column changes it.
    params = {**case.params, "width": 8} if name == "sasrec" else case.params
    old, new, objectives = specs_of(name, case)
    rows = [{k: v for k, v in row.items() if k not in objectives}
            for row in table.make_rows(20, objectives)]  # fmt: skip
    rng = np.random.default_rng(1)
    values = {}

    def drawn(variable, now):
        if variable == "global_step":
            return now
        values[variable] = rng.normal(size=now.shape).astype(now.dtype) * 0.5
        if variable.endswith("moving_variance"):
            values[variable] = np.abs(values[variable]) + 0.5
        return values[variable]

    records = [writing.example(row).SerializeToString() for row in rows]
    before = MODELS[name](old, params)
    model_dir = str(tmp_path / "old")
    expected = ask(before, records, drawn, save=f"{model_dir}/model.ckpt-0")
    config = ek.ExperimentConfig(
        mode="train", spec="s", model_dir=model_dir, train_files=("t",), max_steps=1
    )
    run_record.write_record(config, old, reading.outline(before).places)

    after = MODELS[name](new, params)
    start = warm_start.plan(model_dir, reading.outline(after), new)
    moved = {}

    def taken(variable, now):
        if not moved:
            moved.update(start.values(lambda other: currents[other]))
        return moved.get(variable, now)

    currents = {}
    with_zeros = [{**row, "zeros": [0.0] * len(row["stay"])} for row in rows]
    records = [writing.example(row).SerializeToString() for row in with_zeros]
    found = ask(after, records, taken, currents=currents)
    assert set(found) == set(expected)
    for key, value in expected.items():
        if value.dtype.kind == "f":
            np.testing.assert_allclose(found[key], value, rtol=2e-5, atol=2e-6, err_msg=key)


def ask(model, records, values, *, save=None, currents=None):
    """Predictions of a model after its variables got the values of `values(name, initial)`."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        v1.train.get_or_create_global_step()
        features = Transform(model.spec).features(tf.constant(records))
        joint = model(features, None, "infer").predictions
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        initial = {one.op.name: session.run(one) for one in v1.global_variables()}
        if currents is not None:
            currents.update(initial)
        for one in v1.global_variables():
            one.load(values(one.op.name, initial[one.op.name]), session)
        if save is not None:
            v1.train.Saver().save(session, save)
        return session.run(joint)
