"""Specs of SequenceExamples: both readings agree, a model trains and serves, and wrong records are
reported."""

from __future__ import annotations

import copy
import json
import subprocess
import sys

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import estimator_kit as ek
import feature_specs
from estimator_kit.model import input_layer
from feature_specs.reference import columns
from input_pipelines.integrity import diagnosis, spec_check
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conftest import place
from tests.feature_specs import test_sequences
from tests.feature_specs.broken import problems_of
from tests.feature_specs.test_sequences import SEQUENCES, step

NAN = float("nan")


def as_feature_lists(document):
    """The spec of test_sequences with its lists in feature_lists, also read as bags of steps."""
    document = copy.deepcopy(document)
    for name in SEQUENCES:
        document["features"][name] = {
            "dtype": document["features"][name]["dtype"], "feature_list": True,
        }  # fmt: skip
    document["features"]["tags"] = {"dtype": "string", "shape": "variable"}
    document["features"]["age"] = {"dtype": "float32", "default": 30.0}
    document["columns"].update(
        word_bag={"vocabulary": "words", "list": ["a", "b"]},
        word_bag_emb={"embedding": "word_bag", "dimension": 2},
        word_x_tag={"crossed": ["words", "tags"], "size": 9},
        word_x_tag_hot={"indicator": "word_x_tag"},
        priced={"weighted": "user_bag", "weight": "prices"},
        user_bag={"hash_bucket": "users", "size": 5},
        priced_emb={"embedding": "priced", "dimension": 2, "combiner": "sum"},
        tag={"hash_bucket": "tags", "size": 5},
        tag_hot={"indicator": "tag"},
        age={"numeric": "age"},
    )
    document["groups"]["deep"] += [
        "word_bag_emb", "word_x_tag_hot", "priced_emb", "tag_hot", "age",
    ]  # fmt: skip
    return document


DOCUMENT = as_feature_lists(test_sequences.DOCUMENT)


def record(steps, *, absent=(), **context):
    """A SequenceExample. The feature lists in `absent` are missing instead of empty."""
    lists = {n: [values[i] for values in steps] for i, n in enumerate(SEQUENCES)}
    for name in absent:
        del lists[name]
    return writing.sequence_example({"city": "rome", **context}, lists).SerializeToString()


def parsed_by_tensorflow(spec, records):
    """Parses as the input_fn of a canned estimator does, with only the public parse dicts."""
    context, sequence = columns.make_parse_sequence_example_spec(spec)
    context = {name: entry for name, entry in context.items() if name not in spec.labels}
    parsed, lists, _ = tf.io.parse_sequence_example(records, context, sequence)
    return parsed, lists


@pytest.fixture(scope="module")
def readings():
    """Dense values, lengths and gradients of both groups, by the reference and by the kit."""
    spec = feature_specs.parse(DOCUMENT)
    sessions = [_session(spec, ours) for ours in (False, True)]
    yield lambda records: [run(records) for run in sessions]


def _session(spec, ours):
    graph = tf.Graph()
    with graph.as_default():
        records = tf.compat.v1.placeholder(tf.string, [None])
        if ours:
            features = Transform(spec).features(records)
            steps, lengths = input_layer.sequence_input(spec, "steps", features)
            dense = input_layer.dense_input(spec, "deep", features)
        else:
            context, lists = parsed_by_tensorflow(spec, records)
            layer = tf.keras.experimental.SequenceFeatures(
                columns.feature_columns(spec, "steps"), name=input_layer.SEQUENCE_SCOPE
            )
            steps, lengths = layer(dict(lists))
            # As make_parse_sequence_example_spec documents for columns without steps.
            bags = {n: tf.sparse.reshape(x, x.dense_shape[:2]) for n, x in lists.items()}
            layer = tf.compat.v1.keras.layers.DenseFeatures(
                columns.feature_columns(spec, "deep"), name=input_layer.DNN_SCOPE
            )
            dense = layer({**context, **bags})
        variables = {v.op.name: v for v in tf.compat.v1.trainable_variables()}
        loss = weighted_sum(steps) + weighted_sum(dense)
        gradients = tf.gradients(loss, list(variables.values()))
        gradients = {n: tf.convert_to_tensor(g) for n, g in zip(variables, gradients)}
        session = tf.compat.v1.Session(graph=graph)
        session.run(tf.compat.v1.tables_initializer())
        for _, variable in sorted(variables.items()):
            size = int(np.prod(variable.shape))
            value = np.linspace(-1, 1, size, dtype=np.float32).reshape(variable.shape)
            session.run(variable.initializer, {variable.initializer.inputs[1]: value})
    return lambda given: session.run((steps, lengths, dense, gradients), {records: given})


def weighted_sum(values):
    parts = tf.range(tf.cast(tf.size(values), tf.float32)) * 0.1 + 1
    return tf.reduce_sum(tf.reshape(values, [-1]) * parts)


row = st.tuples(
    st.lists(step, max_size=4),
    st.sets(st.sampled_from(SEQUENCES)),
    st.fixed_dictionaries(
        {"city": st.sampled_from(["rome", "ü", ""])},
        optional={"age": st.floats(-5, 5, width=32), "tags": st.lists(st.sampled_from("abc"))},
    ),
)


@hypothesis.settings(
    max_examples=25, deadline=None, derandomize=True, database=None,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)  # fmt: skip
@hypothesis.given(st.lists(row, min_size=1, max_size=5))
# The layers of tf.feature_column call a method that TensorFlow has deprecated.
@pytest.mark.filterwarnings("ignore:`layer.add_variable` is deprecated:UserWarning")
def test_both_readings_agree(readings, rows):
    hypothesis.assume(any(steps for steps, _, _ in rows))  # SequenceFeatures needs a step.
    records = [
        record(steps, absent=() if steps else absent, **context) for steps, absent, context in rows
    ]
    reference, ours = readings(records)
    np.testing.assert_allclose(ours[0], reference[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(ours[1], reference[1])
    np.testing.assert_allclose(ours[2], reference[2], rtol=1e-6, atol=1e-6)
    assert set(ours[3]) == set(reference[3]) and len(ours[3]) == 5
    for name, gradient in reference[3].items():
        np.testing.assert_allclose(ours[3][name], gradient, rtol=1e-5, atol=1e-6, err_msg=name)


@hypothesis.settings(max_examples=25, deadline=None, derandomize=True, database=None)
@hypothesis.given(st.lists(st.lists(step, max_size=4), min_size=1, max_size=5), st.booleans())
def test_ids_are_those_of_the_same_lists_in_examples(rows, required):
    """Each step has the ids of Examples, which test_sequences compares with TensorFlow's."""
    document = copy.deepcopy(DOCUMENT)
    for name in SEQUENCES:
        document["features"][name].update({"required": True} if required else {})
    in_sequence_examples = Transform(feature_specs.parse(document)).features(
        tf.constant([record(steps) for steps in rows])
    )
    in_examples = Transform(feature_specs.parse(test_sequences.DOCUMENT)).features(
        tf.constant([test_sequences.record(steps) for steps in rows])
    )
    for name in ("word", "kind", "user", "price", "count"):
        assert in_sequence_examples[name].dtype == in_examples[name].dtype
        assert in_sequence_examples[name].to_list() == in_examples[name].to_list()
    assert in_sequence_examples["city"].numpy().tolist() == in_examples["city"].numpy().tolist()


def test_ids_worked_out_by_hand():
    features = Transform(feature_specs.parse(DOCUMENT)).features(
        tf.constant([record([("b", 9, "u", 0.0, 5), ("x", 2, "u", 0.0, 6)]), record([])])
    )
    assert features["word"].to_list() == features["word_bag"].to_list() == [[1, -1], []]
    assert features["kind"].to_list() == [[3, 2], []]
    assert features["count"].to_list() == [[5, 6], []]
    np.testing.assert_array_equal(features["age"], [[30.0], [30.0]])


# --- The whole way --------------------------------------------------------------------------------


def make_rows(count, seed=0):
    """Rows whose label depends only on the steps: whether the mean price is above 5."""
    rng = np.random.default_rng(seed)
    rows = []
    for i, length in enumerate(rng.integers(1, 5, count)):
        high = int(rng.integers(0, 2))
        prices = (rng.uniform(0, 4, length) + 6 * high).tolist()
        lists = {
            "words": ["a", "b", "c", "d"][:length], "kinds": [1] * length, "users": ["u"] * length,
            "prices": prices, "counts": [3] * length,
        }  # fmt: skip
        context = {"city": "rome", "y": high, "tags": ["a"] * (i % 3), "row": i}
        rows.append((context, lists))
    return rows


@pytest.fixture
def config(tmp_path):
    (tmp_path / "spec.yaml").write_text(json.dumps(DOCUMENT))
    ek.write_sequence_examples(f"{tmp_path}/rows.tfrecord", make_rows(80))
    ek.write_sequence_examples(f"{tmp_path}/eval.tfrecord.gz", make_rows(30, seed=1))
    return ek.ExperimentConfig(
        spec=f"{tmp_path}/spec.yaml", model="tests.feature_specs.test_sequences:MeanOfSteps",
        model_params={"learning_rate": 0.5}, model_dir=f"{tmp_path}/model", batch_size=20,
        train_files=(f"{tmp_path}/rows.tfrecord",), eval_files=(f"{tmp_path}/eval.tfrecord.gz",),
        max_steps=60, exporters=("final",),
    )  # fmt: skip


ASK = """
import sys, json
import tensorflow as tf
export, records = sys.argv[1:]
predict = tf.saved_model.load(export).signatures["serving_default"]
rows = [r.numpy() for r in tf.data.TFRecordDataset(records, "GZIP")]
assert not [m for m in sys.modules if m.split(".")[0] in
            ("estimator_kit", "feature_specs", "input_pipelines")]
print(json.dumps(predict(examples=tf.constant(rows))["y/logistic"].numpy().ravel().tolist()))
"""


@pytest.mark.nightly
def test_train_evaluate_export_and_a_request_by_tensorflow_alone(config, tmp_path):
    result = ek.run(config)
    assert result.metrics["auc/y"] > 0.99 and result.rows_trained == 60 * 20
    done = subprocess.run(
        [sys.executable, "-I", "-c", ASK, result.export_path, f"{tmp_path}/eval.tfrecord.gz"],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=240,
    )  # fmt: skip
    answers = json.loads(done.stdout)
    labels = [context["y"] for context, _ in make_rows(30, seed=1)]
    assert [round(p) for p in answers] == labels
    predict = config.model_copy(
        update={"mode": "predict", "predict_files": config.eval_files,
                "predict_output": f"{tmp_path}/p.jsonl"}
    )  # fmt: skip
    ek.run(predict)
    lines = (tmp_path / "p.jsonl").read_text().splitlines()
    np.testing.assert_allclose([json.loads(x)["y/logistic"] for x in lines], answers, atol=1e-6)


@pytest.mark.nightly
def test_a_built_in_model_reads_feature_lists_as_bags(config):
    dnn = config.model_copy(
        update={"model": "dnn", "model_params": {"hidden_units": [8]}, "exporters": ()}
    )
    assert ek.run(dnn).metrics["auc/y"] > 0.8  # From the sum of the prices of each user's steps.


@pytest.mark.parametrize(
    "change, message",
    [
        ({"prices": [1.0, [2.0, 3.0]]},
         "feature 'prices' has 2 values in step 1 of its feature list, expected 1"),
        ({"prices": [[], 1.0]},
         "feature 'prices' has 0 values in step 0 of its feature list, expected 1"),
        ({"prices": [[1.0, 2.0], []]},
         "feature 'prices' has 2 values in step 0 of its feature list, expected 1"),
        ({"prices": [1, 2]},
         "feature 'prices' is int64 in step 0 of its feature list, expected float32"),
        ({"words": [1, 2]},
         "feature 'words' is int64 in step 0 of its feature list, expected string"),
        ({"prices": [1.0, NAN]}, "feature 'prices' is nan, expected a finite number"),
        ({"counts": None},
         "feature 'counts' is missing from its feature_lists, and the spec says required: true; "
         "remove that if records may lack it (and if these are tf.train.Examples, which have no "
         "feature_lists, use shape: variable instead of feature_list: true)"),
        ({"counts": [1]},
         "its lists of steps differ in length: 'prices' has 2, 'counts' has 1, 'words' has 2, "
         "'users' has 2, 'kinds' has 2; in a group they must be equal"),
        ({"city": None}, "feature 'city' is missing, and it has no default in the spec; give it "
                         "one if records may lack it"),
        ({"age": []},
         "feature 'age' is in the context without a value; TensorFlow's parser uses the default "
         "only if a feature is absent from the context: leave it out of the record"),
        ({"y": None}, "label 'y' is missing; if records may lack it, say missing: mask in the "
                      "spec, to give them no weight"),
        ({"y": 2}, "label 'y' is 2, expected 0 or 1 for the binary head of "
                   "objective 'y'"),
    ],
)  # fmt: skip
def test_a_bad_record_is_named(tmp_path, change, message):
    document = copy.deepcopy(DOCUMENT)
    document["features"]["counts"]["required"] = True
    spec = feature_specs.parse(document)
    rows = make_rows(10)
    rows[7] = changed(rows[7][0], change)
    path = f"{tmp_path}/bad.tfrecord"
    ek.write_sequence_examples(path, rows)
    # The graph fails, and the diagnosis names the record before any run.
    assert diagnosis.find_bad_record(spec, [path]) == f"{path}: {place(path, 7)}: {message}"
    report = spec_check.check(spec, [path], rows=50)
    assert report.errors == (f"{path}: record 7: {message}",)


def changed(context, change):
    """A row of two steps with changed features or feature lists."""
    steps = {"words": ["a", "b"], "kinds": [1, 1], "users": ["u", "u"], "prices": [1.0, 2.0],
             "counts": [3, 4]}  # fmt: skip
    context = {**context, **{n: v for n, v in change.items() if n not in SEQUENCES}}
    return context, {**steps, **{n: v for n, v in change.items() if n in SEQUENCES}}


@pytest.mark.nightly
def test_a_bad_record_stops_a_run_by_name(config, tmp_path):
    rows = make_rows(30)
    rows[21] = changed(rows[21][0], {"users": ["u", ["v", "w"]]})
    path = f"{tmp_path}/bad.tfrecord"
    ek.write_sequence_examples(path, rows)
    with pytest.raises(ek.DataError) as error:
        ek.run(config.model_copy(update={"train_files": (path,), "mode": "train"}))
    assert str(error.value) == (
        f"{path}: {place(path, 21)}: feature 'users' has 2 values in step 1 of its feature list, "
        "expected 1"
    )


def test_empty_and_absent_lists_are_no_error():
    spec = feature_specs.parse(DOCUMENT)
    empty = record([], y=0)
    absent = record([], absent=SEQUENCES, y=1)
    features, labels = Transform(spec).features_and_labels(tf.constant([empty, absent]))
    assert features["price"].to_list() == features["word"].to_list() == [[], []]
    assert labels["y"].numpy().tolist() == [0, 1]
    assert diagnosis.explain(spec, empty) is None and diagnosis.explain(spec, absent) is None


def test_required_lists_may_be_empty_but_not_absent():
    document = copy.deepcopy(DOCUMENT)
    document["features"]["prices"]["required"] = True
    transform = Transform(feature_specs.parse(document))
    assert transform.features(tf.constant([record([])]))["price"].to_list() == [[]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="list 'prices' is required"):
        transform.features(tf.constant([record([], absent=["prices"])]))


def test_rows_are_validated_and_counted(config, caplog):
    caplog.set_level("INFO")
    ek.run(config.model_copy(update={"mode": "validate", "validate_rows": 80}))
    text = caplog.text
    assert "80 records, 80 of them fit the spec" in text
    assert "feature words: missing in 0.0%, 4 different values" in text
    assert "label y: 0 in " in text


# --- The other kind of record ---------------------------------------------------------------------


EXAMPLE_INSTEAD = (
    "seems to be a tf.train.Example: it has no feature_lists, but counts, kinds, prices, ... among "
    "its features; the spec declares these with feature_list: true, so they would be empty; use "
    "shape: variable instead"
)
SEQUENCE_EXAMPLE_INSTEAD = (
    "is a tf.train.SequenceExample (it has feature_lists: counts, kinds, prices, ...), but the "
    "spec describes tf.train.Examples, so these lists would be lost; declare them as features with "
    "feature_list: true, and list unused ones under ignored"
)


@pytest.mark.parametrize("mode", ["train", "train_and_evaluate", "predict", "validate"])
@pytest.mark.parametrize("sequence_examples", [True, False])
def test_the_other_kind_of_record_is_refused(config, tmp_path, mode, sequence_examples):
    first, path = f"{tmp_path}/first.tfrecord", f"{tmp_path}/other.tfrecord"
    rows = make_rows(5)
    examples = [{**context, **lists} for context, lists in rows]
    if sequence_examples:
        message = SEQUENCE_EXAMPLE_INSTEAD
        (tmp_path / "spec.yaml").write_text(json.dumps(test_sequences.DOCUMENT))
        ek.write_examples(first, examples)
        ek.write_sequence_examples(path, rows)
    else:
        message = EXAMPLE_INSTEAD
        ek.write_sequence_examples(first, rows)
        ek.write_examples(path, examples)
    files = {"train_and_evaluate": "eval_files", "predict": "predict_files"}
    update = {"mode": mode, files.get(mode, "train_files"): (first, path)}
    if mode == "validate":
        update.update(validate_rows=1, train_files=(path,))
    if mode == "predict":
        update.update(predict_output=str(tmp_path / "predictions.jsonl"))
    with pytest.raises((ek.DataError, ek.ConfigError)) as error:
        ek.run(config.model_copy(update=update))
    assert f"{path}: record 0: {message}" in str(error.value).splitlines()
    assert not (tmp_path / "model").exists()


def test_a_record_that_is_neither(tmp_path):
    with tf.io.TFRecordWriter(f"{tmp_path}/x.tfrecord") as writer:
        writer.write(b"no example at all")
    for document, kind in ((DOCUMENT, "SequenceExample"), (test_sequences.DOCUMENT, "Example")):
        found = diagnosis.find_bad_record(feature_specs.parse(document), [f"{tmp_path}/x.tfrecord"])
        place = f"{tmp_path}/x.tfrecord: record 0 at byte 0"
        assert found == f"{place}: is not a serialized tf.train.{kind}"


# --- The spec -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"features__words": {"dtype": "string", "feature_list": True, "shape": [2]}},
         "features.words: with feature_list: true the shape is either left out (one value per "
         "step) or variable (a list per step), got [2]. Remove shape, or remove feature_list if "
         "the list is in the context."),
        ({"features__prices": {"dtype": "float32", "feature_list": True, "default": 0.0}},
         "features.prices: a feature list cannot have a default, because an absent list is read "
         "as an empty list. Remove default."),
        ({"features__words": {"dtype": "string", "feature_list": "yes"}},
         "features.words.feature_list: got 'yes', expected a valid boolean"),
        ({"columns__city": {"hash_bucket": "city", "size": 5, "sequence": True}},
         "columns.city.sequence: feature 'city' has one value per record, expected a list of "
         "steps. Declare it with feature_list: true or shape: variable, or remove sequence."),
        ({"columns__price": {"sequence_numeric": "words"}},
         "columns.price.sequence_numeric: feature 'words' is string with feature_list: true, "
         "expected numbers with feature_list: true or shape: variable, one per step"),
        ({"columns__priced": {"weighted": "user_bag", "weight": "counts"}},
         "columns.priced.weight: feature 'counts' is int64 with feature_list: true, expected "
         "float32 with feature_list: true or shape: variable, one weight per id"),
        ({"columns__x": {"numeric": "prices"}, "groups__x": ["x"]},
         "columns.x.numeric: feature 'prices' has a variable length, expected a fixed shape. Use "
         "sequence_numeric for one number per step."),
        ({"columns__x": {"bucketized": "prices", "boundaries": [1.0]}, "groups__x": ["x"]},
         "columns.x.bucketized: feature 'prices' must hold one number or a fixed number of "
         "numbers, [n]"),
        ({"labels__y": {"dtype": "int64", "weight": "prices"}},
         "labels.y.weight: 'prices' must be a single number"),
    ],
)  # fmt: skip
def test_what_a_broken_feature_list_is_told(changes, message):
    assert problems_of(DOCUMENT, **changes) == [message]


def test_the_spec_survives_its_own_document():
    spec = feature_specs.parse(DOCUMENT)
    assert spec.feature_lists == tuple(SEQUENCES) and spec.sequence_examples
    again = feature_specs.parse(spec.to_dict())
    assert again == spec and again.fingerprint() == spec.fingerprint()
    assert "feature_list" not in json.dumps(feature_specs.parse(test_sequences.DOCUMENT).to_dict())


def test_each_kind_has_a_parse_dict_of_its_own():
    spec = feature_specs.parse(DOCUMENT)
    context, sequence = ek.make_parse_sequence_example_spec(spec)
    assert context == {
        "city": tf.io.FixedLenFeature((), tf.string), "tags": tf.io.VarLenFeature(tf.string),
        "age": tf.io.FixedLenFeature((), tf.float32, 30.0),
        "y": tf.io.FixedLenFeature((), "int64"),
    }  # fmt: skip
    assert sequence == {
        "words": tf.io.VarLenFeature(tf.string), "kinds": tf.io.VarLenFeature(tf.int64),
        "users": tf.io.VarLenFeature(tf.string), "prices": tf.io.VarLenFeature(tf.float32),
        "counts": tf.io.VarLenFeature(tf.int64),
    }  # fmt: skip
    with pytest.raises(ValueError) as error:
        ek.make_parse_example_spec(spec)
    assert str(error.value) == (
        "<dict>: the records are SequenceExamples (feature_list: true in words, kinds, users, "
        "prices, counts), which tf.io.parse_example cannot read. Use "
        "make_parse_sequence_example_spec and tf.io.parse_sequence_example."
    )
    with pytest.raises(ValueError) as error:
        ek.make_parse_sequence_example_spec(feature_specs.parse(test_sequences.DOCUMENT))
    assert str(error.value) == (
        "<dict>: the records are Examples (no feature has feature_list: true). Use "
        "make_parse_example_spec and tf.io.parse_example."
    )


# --- Writing --------------------------------------------------------------------------------------


def test_steps_are_stored_with_one_type():
    stored = writing.sequence_example(
        {"city": "rome", "none": None},
        {"x": [1, 2.5], "s": ["ü", b"\xff"], "empty": [], "gone": None, "two": [[1, 2], [], 3]},
    )
    lists = stored.feature_lists.feature_list
    assert set(lists) == {"x", "s", "empty", "two"} and set(stored.context.feature) == {"city"}
    assert [s.float_list.value[:] for s in lists["x"].feature] == [[1.0], [2.5]]
    assert [s.bytes_list.value[:] for s in lists["s"].feature] == [["ü".encode()], [b"\xff"]]
    assert [s.int64_list.value[:] for s in lists["two"].feature] == [[1, 2], [], [3]]
    assert len(lists["empty"].feature) == 0


@pytest.mark.parametrize(
    "steps, message",
    [
        ("abc", "row 1: 'x': got 'abc', expected a list of steps"),
        ([1, "a"], "row 1: 'x': got [1, 'a'], expected a number, a string, or a flat list of "),
    ],
)
def test_what_is_no_list_of_steps_is_refused(tmp_path, steps, message):
    with pytest.raises(TypeError) as error:
        ek.write_sequence_examples(f"{tmp_path}/x.tfrecord", [({}, {}), ({}, {"x": steps})])
    assert message in str(error.value)
    assert not list(tmp_path.iterdir())
