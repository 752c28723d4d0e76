"""`self.raw`: every form of a feature, as records hold it, in every mode and in both signatures."""

from __future__ import annotations

import re
import typing

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints import run_record
from estimator_kit.checkpoints.model_outline import build, outline
from estimator_kit.config.modes import command_of
from estimator_kit.exporters.saved_model_graph import features_of_signatures
from estimator_kit.exporters.writer import make_graph
from estimator_kit.model.names import PREDICT_EXAMPLES, PREDICT_RAW
from estimator_kit.scoring import item_rows
from estimator_kit.training import input_cache
from feature_specs.entry import Dtype
from input_pipelines import data_service
from input_pipelines.eager import as_written
from input_pipelines.record_files import writing
from input_pipelines.transform import serving_inputs
from input_pipelines.transform.record_parsing import RecordParser
from input_pipelines.transform.transforms import Transform, raw_of
from tests.conftest import small_run
from tests.estimator_kit.model.test_model_fn import Constant

ModeKeys = tf.estimator.ModeKeys
PLACE = re.escape(__file__) + r":\d+: \w+\.raw: "
PNG = tf.io.encode_png(np.full([2, 2, 1], 9, np.uint8)).numpy()

# Three values of each dtype, and a default that no column would accept as a value.
VALUES = {
    "string": ([b"a b", b"\xff\x00", "\u00e9".encode()], "\u00fc"),
    "int64": ([2**62, -1, 7], -1),
    "float32": ([0.5, -3.0, 2.0**100], -1.0),
}


def plain(value):
    return value.encode() if isinstance(value, str) else value


class Case(typing.NamedTuple):
    """A feature, what two records hold of it, and what `self.raw` gives. None is not stored."""

    feature: dict
    stored: tuple
    expected: list
    lengths: typing.Optional[tuple] = None  # Of the lists in a list.


def cases(dtype):
    """Every form of a feature that a spec can state, except encoded bytes."""
    (a, b, c), default = VALUES[dtype]
    d = plain(default)
    lists = {
        "list": Case({"shape": "variable"}, ([a, b, c], None), [[a, b, c], []]),
        "lists": Case(
            {"shape": "variable", "row_lengths": f"lengths_{dtype}"},
            ([a, b, c], None), [[[a], [], [b, c]], []], ([1, 0, 2], None),
        ),
    }  # fmt: skip
    steps = {
        "steps": Case({"feature_list": True}, ([a, b, c], None), [[a, b, c], []]),
        "needed_steps": Case({"feature_list": True, "required": True}, ([a], [b, c]),
                             [[a], [b, c]]),
        "steps_of_lists": Case({"feature_list": True, "shape": "variable"},
                               ([[a], [], [b, c]], None), [[[a], [], [b, c]], []]),
    }  # fmt: skip
    return {
        "one": Case({}, (a, b), [a, b]),
        "missing": Case({"default": default}, (c, None), [c, d]),
        "two": Case({"shape": [2]}, ([a, b], [c, c]), [[a, b], [c, c]]),
        "four": Case({"shape": [2, 2], "default": default}, ([a, b, c, a], None),
                     [[[a, b], [c, a]], [[d, d], [d, d]]]),
        **lists,
        **steps,
    }  # fmt: skip


BYTES = {
    "pixels": Case(
        {"decode": {"raw": {"dtype": "uint8", "shape": [3]}}, "default": "zeros"},
        (b"\x01\x07\xff", None), [b"\x01\x07\xff", b""],
    ),
    "photo": Case({"decode": {"image": {"height": 2, "width": 2, "channels": 1}}},
                  (PNG, PNG), [PNG, PNG]),
}  # fmt: skip


def all_cases(sequence):
    """{feature: case} of records that are Examples, or SequenceExamples."""
    found = {
        f"{name}_{dtype}": case._replace(feature={"dtype": dtype, **case.feature})
        for dtype in typing.get_args(Dtype)
        for name, case in cases(dtype).items()
        if sequence or "feature_list" not in case.feature
    }
    for name, case in BYTES.items():
        found[name] = case._replace(feature={"dtype": "string", **case.feature})
    return found


def document_of(found):
    features = {"x": {"dtype": "float32"}, **{name: c.feature for name, c in found.items()}}
    for case in found.values():
        if case.lengths is not None:
            features[case.feature["row_lengths"]] = {"dtype": "int64", "shape": "variable"}
    return {
        "features": features,
        # A column may read the same feature.
        "columns": {"x": {"numeric": "x"}, "pixels": {"numeric": "pixels"},
                    "word": {"hash_bucket": "list_string", "size": 5}},
        "groups": {"deep": ["x", "pixels"], "wide": ["word"]},
        "labels": {"click": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}},
        "raw": list(found),
    }  # fmt: skip


def records_of(found, sequence):
    records = []
    for row in range(2):
        context, steps = {"x": 1.0, "click": row}, {}
        for name, case in found.items():
            (steps if "feature_list" in case.feature else context)[name] = case.stored[row]
            if case.lengths is not None:
                context[case.feature["row_lengths"]] = case.lengths[row]
        made = writing.sequence_example(context, steps) if sequence else writing.example(context)
        records.append(made.SerializeToString())
    return records


class Echo(ek.ModelFn):
    """Answers with every raw feature; lists are padded."""

    def logits(self, features, mode):
        self.values = {name: self.raw(name) for name in self.spec.raw}
        for name, value in self.values.items():
            is_list = isinstance(value, tf.RaggedTensor)
            self.add_output(name, value.to_tensor() if is_list else value)
        return ek.dense_layer(self.dense_input(features, "deep"), 1, "logits")


def listed(value):
    return value.to_list() if hasattr(value, "to_list") else np.asarray(value).tolist()


def padded(case):
    """The values of a case as one array."""
    made = tf.ragged.constant(case.expected, dtype=case.feature["dtype"])
    return made.to_tensor().numpy() if isinstance(made, tf.RaggedTensor) else made.numpy()


@pytest.mark.ci
@pytest.mark.parametrize("sequence", [False, True], ids=["Example", "SequenceExample"])
def test_each_form_has_the_values_of_the_records_in_every_mode_and_signature(sequence):
    found = all_cases(sequence)
    spec = feature_specs.parse(document_of(found))
    records = records_of(found, sequence)
    for mode in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT):
        model = Echo(spec)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.compat.v1.train.get_or_create_global_step()
            features, labels = Transform(spec).features_and_labels(tf.constant(records))
            made = model(features, labels, mode)
            values = session.run(model.values)
            if mode == ModeKeys.PREDICT:
                session.run(tf.compat.v1.global_variables_initializer())
                predictions = session.run(made.predictions)
        for name, case in found.items():
            assert listed(values[name]) == case.expected, (mode, name)
            assert values[name].dtype == (object if case.feature["dtype"] == "string"
                                          else np.dtype(case.feature["dtype"]))  # fmt: skip
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        flat = session.run(RecordParser(spec).flat(tf.constant(records), with_labels=False))
    assert serving_inputs.sendable(spec, flat).all()
    expected = {name: padded(case) for name, case in found.items()}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = make_graph(Echo(spec), spec, None, PREDICT_EXAMPLES)
        signatures = made.signatures
        meta = tf.compat.v1.train.export_meta_graph()
        for name, signature in signatures.items():
            meta.signature_def[name].CopyFrom(signature)
        read = features_of_signatures(meta, spec)
        for name, inputs in (
            (PREDICT_EXAMPLES, {"examples": np.array(records, object)}),
            (PREDICT_RAW, serving_inputs.filled(spec, flat)),
        ):
            signature = signatures[name]
            feeds = {signature.inputs[key].name: value for key, value in inputs.items()}
            answer = session.run({key: signature.outputs[key].name for key in found}, feeds)
            for key, values in expected.items():
                np.testing.assert_array_equal(answer[key], values, f"{name} {key}")
                np.testing.assert_array_equal(answer[key], predictions[key], f"{name} {key}")
    for key, case in found.items():
        assert read[key] == sorted({key, case.feature.get("row_lengths", key)}), key
    assert read["predict/click"] == ["pixels", "x"]
    assert read[PREDICT_RAW] == sorted(spec.used_features())


def test_an_eager_transform_has_the_same_values():
    found = all_cases(False)
    spec = feature_specs.parse(document_of(found))
    features = Transform(spec).features(tf.constant(records_of(found, False)))
    for name, case in found.items():
        value = features[raw_of(name)]
        assert listed(value) == case.expected, name


@pytest.mark.nightly
def test_batches_of_a_data_service_are_joined_with_their_raw_features():
    names = ("one_string", "four_int64", "list_string", "lists_string", "pixels")
    found = {name: case for name, case in all_cases(False).items() if name in names}
    spec = feature_specs.parse(document_of(found))
    records = tf.constant(records_of(found, False))
    one_row = tf.data.Dataset.from_tensor_slices(records[:, tf.newaxis])
    parse = as_written(Transform(spec).features_and_labels)
    end = tf.data.Dataset.from_tensors(records[:0])
    joined = as_written(data_service._to_the_end)(one_row.concatenate(end).map(parse), 4, 2, 60.0)
    ((features, _),) = joined
    for name, case in found.items():
        value = features[raw_of(name)]
        assert listed(value) == case.expected, name


def test_a_number_that_is_not_finite_is_refused(document):
    document["raw"] = ["price"]
    del document["columns"]["price"]
    document["groups"] = {"wide": ["user", "city", "tag", "city_x_tag"],
                          "deep": ["user_emb", "city_hot", "tag_emb"]}  # fmt: skip
    spec = feature_specs.parse(document)
    record = writing.example({"price": float("nan"), "city": "rome"}).SerializeToString()
    with pytest.raises(tf.errors.InvalidArgumentError, match="NaN or infinity in feature 'price'"):
        Transform(spec).features(tf.constant([record]))


class Asks(Constant):
    name = "user"

    def logits(self, features, mode):
        self.raw(self.name)
        return super().logits(features, mode)


@pytest.mark.parametrize(
    ("raw", "name", "rest"),
    [
        ([], "user", "does not list 'user', it lists nothing. Add it: `raw: [user]`."),
        (["city"], "user", "does not list 'user', it lists city. Add it: `raw: [city, user]`."),
        (["city"], "citi", "does not list 'citi', it lists city. Did you mean 'city'?"),
        (["city"], "click", "does not list 'click', it lists city. It is a label, which requests "
         "do not have. example_losses and metrics get labels."),
        (["city"], "zzz", "does not list 'zzz', it lists city. Use one of: price, user, city, "
         "tags."),
    ],
)  # fmt: skip
def test_a_feature_that_is_not_declared_is_refused_before_a_training(document, raw, name, rest):
    spec = feature_specs.parse({**document, "raw": raw}, source="ads.yaml")
    model = Asks(spec)
    model.name = name
    with pytest.raises(ek.ConfigError) as error:
        outline(model)
    expected = PLACE + re.escape(f"the section `raw` of ads.yaml {rest}")
    assert re.fullmatch(expected, str(error.value)), str(error.value)


def test_a_raw_feature_outside_of_a_graph_or_of_another_input_is_refused(document):
    model = Asks(feature_specs.parse({**document, "raw": ["user"]}))
    with pytest.raises(ek.ConfigError, match=PLACE + "'user' has no values here. Call it in log"):
        model.raw("user")
    features = {"user": tf.constant([1])}
    with tf.Graph().as_default(), pytest.raises(ek.ConfigError) as error:
        model(features, None, ModeKeys.PREDICT)
    text = "the input has no 'user'. Make the input with this spec, or add the entry 'user/raw' to"
    assert re.match(PLACE + text, str(error.value))


def test_metrics_and_hooks_can_ask_and_features_that_nothing_asks_for_are_logged(document, caplog):
    class InMetrics(Constant):
        def metrics(self, labels, predictions, weights, features):
            is_rome = tf.cast(tf.equal(self.raw("city"), "rome"), tf.float32)
            return {"rome": tf.compat.v1.metrics.mean(is_rome)}

        def hooks(self, mode):
            self.raw("user")
            return ()

    del document["labels"]["buy"], document["objectives"]["buy"]
    spec = feature_specs.parse({**document, "raw": ["city", "user", "tags"]}, source="ads.yaml")
    with caplog.at_level("INFO", "estimator_kit"):
        assert "rome" in outline(InMetrics(spec)).metrics
    text = "the model InMetrics does not read tags, which the section `raw` of ads.yaml lists"
    assert [r.getMessage() for r in caplog.records if r.name == "estimator_kit"] == [text]


def test_what_else_reads_a_spec_knows_its_raw_features(document, tmp_path):
    spec = feature_specs.parse({**document, "raw": ["city", "user"]})
    part = item_rows._of_items(spec, ["city", "tags"])
    assert part.raw == ("city",) and part.used_features() == ("city", "tags")
    # A cache of rows stores numbers only.
    config = small_run("data", tmp_path)(max_steps=1, input_cache_dir=str(tmp_path))
    with pytest.raises(ek.ConfigError) as error:
        input_cache.check(config, spec)
    assert str(error.value) == (
        "--input_cache_dir: feature 'city', in `raw`, is a string, which the cache cannot store. "
        "Remove --input_cache_dir."
    )
    input_cache.check(config, feature_specs.parse({**document, "raw": ["price"]}))


def test_a_checkpoint_fits_a_spec_with_another_list(document, tmp_path):
    spec = feature_specs.parse(document)
    config = small_run("data", tmp_path)(max_steps=1)
    run_record.write_record(command_of(config), spec, {})
    changed = feature_specs.parse({**document, "raw": ["user"]})
    run_record.check_spec_unchanged(str(tmp_path), changed, {})
    assert run_record.kept_spec(str(tmp_path / "feature_spec")).raw == ()
    run_record.write_record(command_of(config), changed, {})
    assert run_record.kept_spec(str(tmp_path / "feature_spec")).raw == ("user",)
    assert build(Asks(changed), ModeKeys.PREDICT)
