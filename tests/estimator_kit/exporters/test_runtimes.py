"""Files for TensorFlow Lite and ONNX Runtime answer like the export that they are made from."""

from __future__ import annotations

import copy
import json
import os
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit import exit_codes
from estimator_kit.checkpoints import run_record
from estimator_kit.commands import transform as transformation
from estimator_kit.config.modes import command_of
from estimator_kit.errors import ExportError
from estimator_kit.exporters import comparison, saved_model
from estimator_kit.exporters.runtimes import conversion, lite, onnx_graph
from estimator_kit.models import find_model
from estimator_kit.scoring import export as exports
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conftest import DOCUMENT, make_rows, place

_COLUMNS = (
    "Use --transform_inputs=columns, which leaves strings and their lookups to the app, or use "
    "columns without lookups, such as identity columns."
)


def exported(folder, document, rows, hidden_units):
    """The paths of an export after one step, and of its rows."""
    spec = feature_specs.parse(document)
    records = [writing.example(row).SerializeToString() for row in rows]
    path = f"{folder}/rows.tfrecord"
    writing.write_examples(path, rows)

    def input_fn():
        batch = tf.data.Dataset.from_tensors(records).repeat(20)
        transform = Transform(spec)
        return batch.map(tf.autograph.experimental.do_not_convert(transform.features_and_labels))

    model = find_model("wide_deep")(spec, {"hidden_units": hidden_units})
    config = tf.estimator.RunConfig(f"{folder}/model", save_summary_steps=None, tf_random_seed=1)
    trained = tf.estimator.Estimator(model, config=config)
    trained.train(input_fn, steps=20)
    fields = {"spec": "s", "model_dir": config.model_dir, "train_files": ("t",), "max_steps": 1}
    run_record.write_record(command_of(ek.ExperimentConfig(mode="train", **fields)), spec)
    return saved_model.export_saved_model(trained, spec, f"{folder}/export"), path


def test_rows_that_cannot_be_sent_as_tensors_are_told():
    """As rows whose lists end with the value that stands for a missing one."""
    rows = types.SimpleNamespace(records=[b""] * 3)
    some, none = (
        types.SimpleNamespace(sendable=lambda rows, sent=sent: np.array(sent))
        for sent in ([False, True, False], [False] * 3)
    )
    conversion._check_sendable(some, rows, "predict_files")
    with pytest.raises(ek.ConfigError) as error:
        conversion._check_sendable(none, rows, "predict_files")
    assert str(error.value) == (
        "--predict_files: none of the first 3 rows can be sent as tensors, because each has a list "
        "that ends with a missing value. Name other files, or use --transform_inputs=columns."
    )


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """An export that reads only numbers and ids."""
    document = copy.deepcopy(DOCUMENT)
    document["features"] = {
        "price": {"dtype": "float32", "default": 0.0}, "hour": {"dtype": "int64"},
        # Seconds since 1970, which are 128 apart as float32.
        "time": {"dtype": "int64", "default": 1767225600},
    }  # fmt: skip
    document["columns"] = {
        "price": {"numeric": "price", "normalizer": "log1p"},
        "hour": {"identity": "hour", "size": 24},
        "hour_emb": {"embedding": "hour", "dimension": 4},
        "time": {
            "numeric": "time",
            "normalizer": {"zscore": {"mean": 1767225629.5, "stddev": 17.3}},
        },
        "time_range": {"bucketized": "time", "boundaries": [-1, 0.5]},
    }
    document["groups"] = {
        "wide": ["price", "hour", "time_range"], "deep": ["price", "hour_emb", "time"],
    }  # fmt: skip
    rows = [{**row, "hour": i % 24, "time": 1767225600 + i} for i, row in enumerate(make_rows(60))]
    return exported(tmp_path_factory.mktemp("numbers"), document, rows, [64, 64])


@pytest.fixture(scope="module")
def ads(tmp_path_factory):
    """An export that hashes and crosses strings and reads lists of them, some empty."""
    return exported(tmp_path_factory.mktemp("ads"), DOCUMENT, make_rows(60), [4])


def convert(export, folder, kind, **fields):
    source, path = export
    config = ek.ExperimentConfig(
        mode="transform", export_dir=source, transform=kind, predict_files=(path,),
        transform_dir=f"{folder}/out", **fields,
    )  # fmt: skip
    return transformation.transform(command_of(config)).splitlines()


def answers(export):
    """The answers of `predict_examples` in Python's TensorFlow."""
    (batch,) = exports.predictions(exports.read(export[0], ""), [export[1]], 100)
    return batch


@pytest.mark.parametrize("kind", ["freeze", "tflite"])
def test_an_id_out_of_range_is_named(numbers, tmp_path, kind):
    path = f"{tmp_path}/rows.tfrecord"
    writing.write_examples(path, [{**row, "hour": 22 + i} for i, row in enumerate(make_rows(3))])
    with pytest.raises(ek.DataError) as error:
        convert((numbers[0], path), tmp_path, kind)
    assert str(error.value) == (
        f"{path}: {place(path, 2)}: feature 'hour' is 24, expected 0 to 23; raise the column's "
        "size or give it a default_id"
    )


@pytest.mark.ci
def test_losses_and_aucs_by_hand(numbers):
    spec = transformation.kept_spec(numbers[0])
    rows = [
        {"price": 1.0, "hour": 1, "click": click, "buy": buy}
        for click, buy in ((0, 0), (1, 0), (1, 1), (0, 0))
    ]
    records = [writing.example(row).SerializeToString() for row in rows]

    def answers(*clicks):
        zeros = np.zeros((4, 1), np.float32)
        return {"click/logits": np.float32([clicks]).T, "buy/logits": zeros}

    # Probabilities 0.2, 0.5, 0.8, 0.5: three pairs of four in order, and half of a tie.
    good, even = answers(-np.log(4), 0, np.log(4), 0), answers(0, 0, 0, 0)
    found = comparison.metrics_of(spec, records, good)["click"]
    assert found["loss"] == pytest.approx(-(2 * np.log(0.8) + 2 * np.log(0.5)) / 4, rel=1e-6)
    assert found["auc"] == pytest.approx((3 + 0.5) / 4, abs=1e-6)
    lines = comparison.check(spec, records, good, good, limit=0.01)
    assert lines[0] == "loss/click 0.4581 -> 0.4581, auc/click 0.875 -> 0.875 on 4 rows"
    assert [line.split()[0] for line in lines] == ["loss/click", "loss/buy"]
    with pytest.raises(ExportError) as error:
        comparison.check(spec, records, good, even, limit=0.5)
    assert str(error.value) == (
        "the result of --mode=transform was refused: loss/click 0.4581 -> 0.6931, auc/click 0.875 "
        "-> 0.5 on 4 rows of --eval_files; --transform_max_loss_increase=0.5 allows 0.6872"
    )
    assert len(comparison.check(spec, records, good, even, limit=0.6)) == 2


def test_losses_of_heads_that_call_their_logits_otherwise():
    document = {
        "features": {"x": {"dtype": "float32"}, "who": {"dtype": "string"}},
        "columns": {"x": {"numeric": "x"}}, "groups": {"deep": ["x"]},
        "labels": {"price": {"dtype": "float32"}, "order": {"dtype": "int64"}},
        "objectives": {
            "price": {"head": "regression"}, "order": {"head": "ranking", "group_by": "who"},
        },
    }  # fmt: skip
    spec = feature_specs.parse(document)
    rows = [{"x": 0.0, "who": "a", "price": 1.0, "order": i} for i in (0, 1)]
    records = [writing.example(row).SerializeToString() for row in rows]
    answers = {"price/predictions": np.float32([[1], [3]]), "order/scores": np.float32([[0], [1]])}
    found = comparison.metrics_of(spec, records, answers)
    assert found["price"] == {"loss": pytest.approx((0 + 4) / 2)}
    # One pair, one apart and in order.
    assert found["order"] == {"loss": pytest.approx(np.log1p(np.exp(-1)), rel=1e-6)}


@pytest.mark.nightly
def test_a_transformed_export_says_what_it_changes(numbers, tmp_path):
    assert convert(numbers, tmp_path / "a", "freeze")[-1] == (
        "  the change of loss and AUC was not measured. Give --eval_files to measure it."
    )
    lines = convert(numbers, tmp_path / "b", "freeze", eval_files=numbers[1])
    assert [line.split()[0] for line in lines[-2:]] == ["loss/click", "loss/buy"]
    assert all(line.endswith(" on 60 rows") for line in lines[-2:])
    unlabeled = f"{tmp_path}/unlabeled.tfrecord"
    writing.write_examples(unlabeled, [{"price": 1.0, "hour": 1}])
    with pytest.raises(ek.DataError, match=r"unlabeled\.tfrecord.*'(click|buy)'"):
        convert(numbers, tmp_path / "c", "freeze", eval_files=unlabeled)
    assert not (tmp_path / "c" / "out").exists()


@pytest.mark.ci
def test_a_file_for_tensorflow_lite(numbers, tmp_path):
    lines = convert(numbers, tmp_path, "tflite")
    assert lines[0] == f"tflite: {tmp_path}/out/model.tflite, from features"
    assert lines[3] == "  needs no delegate"
    assert lines[4].startswith("  largest difference on 60 rows: ")
    assert sorted(os.listdir(tmp_path)) == ["out"]
    assert sorted(os.listdir(tmp_path / "out")) == [
        "assets.extra", "model.tflite", "signature.json"
    ]  # fmt: skip
    extra = tmp_path / "out" / "assets.extra"
    assert (extra / "lineage.json").exists() and (extra / "feature_spec" / "spec.json").exists()
    said = json.loads((tmp_path / "out" / "signature.json").read_text())
    assert said["inputs"] == {
        "hour": {"dtype": "int64", "shape": [None]}, "time": {"dtype": "int64", "shape": [None]},
        "price": {"dtype": "float32", "shape": [None]},
    }  # fmt: skip
    assert said["outputs"]["click/probabilities"] == {"dtype": "float32", "shape": [None, 2]}
    assert said["outputs"]["buy/classes"] == {"dtype": "string", "shape": [None, 1]}
    assert (said["input_form"], said["tensorflow_ops"]) == ("features", [])
    model = lite.Model((tmp_path / "out" / "model.tflite").read_bytes())
    first = make_rows(1)[0]
    row = {
        "price": np.array([first["price"]], np.float32), "hour": np.array([0]),
        "time": np.array([1767225600]),
    }  # fmt: skip
    found, expected = model.ask([row]), answers(numbers)
    np.testing.assert_allclose(found["click/logits"][0], expected["click/logits"][0], atol=1e-6)
    assert model.ops["FULLY_CONNECTED"] == 4 and model.int8_ops == 0


@pytest.mark.ci
def test_quantized_files(numbers, tmp_path):
    def size(name):
        return (tmp_path / name / "out" / "model.tflite").stat().st_size

    convert(numbers, tmp_path / "float", "tflite")
    # A hidden layer has 64 x 64 weights of 4 bytes, then of one.
    lines = convert(numbers, tmp_path / "dynamic", "tflite_dynamic", transform_tolerance=0.05)
    assert size("float") - size("dynamic") > 3 * 64 * 64 - 2000
    lines = convert(numbers, tmp_path / "int8", "tflite_int8", transform_tolerance=0.1)
    assert int(lines[4].partition("  ops that give int8: ")[2]) >= 10
    assert float(lines[5].partition("on 60 rows: ")[2]) > 1e-5
    assert size("int8") < size("float")


@pytest.mark.nightly
def test_a_quantized_file_whose_loss_rises_is_refused(numbers, tmp_path, monkeypatch):
    fields = {"transform_tolerance": 10.0, "eval_files": numbers[1]}
    lines = convert(numbers, tmp_path / "a", "tflite_int8", **fields,
                    transform_max_loss_increase=10.0)  # fmt: skip
    assert [line.split()[0] for line in lines[-2:]] == ["loss/click", "loss/buy"]
    # The loss of a quantization depends on the version of TensorFlow.
    losses = iter([1.0, 1.02])
    monkeypatch.setattr(
        comparison, "metrics_of", lambda *arguments: {"click": {"loss": next(losses)}}
    )
    with pytest.raises(ExportError, match=r"increase=0.01 allows 1\.01$") as error:
        convert(numbers, tmp_path / "b", "tflite_int8", **fields)
    assert exit_codes.exit_code(error.value) == exit_codes.EXPORT_REFUSED
    assert not (tmp_path / "b" / "out").exists()


@pytest.mark.nightly  # test_exports.py refuses a result, too.
def test_a_quantized_file_past_the_tolerance_is_refused(numbers, tmp_path):
    with pytest.raises(ExportError) as error:
        convert(numbers, tmp_path, "tflite_int8")
    text = str(error.value)
    assert text.startswith("the result of --mode=transform was refused: tflite_int8: '")
    assert text.endswith("--transform_tolerance=1e-05. int8 changes answers.")
    assert os.listdir(tmp_path) == []


@pytest.mark.ci
def test_columns_leave_strings_to_the_app(ads, tmp_path):
    lines = convert(ads, tmp_path, "tflite", transform_inputs="columns")
    assert lines[0].endswith("model.tflite, from columns")
    assert lines[3:] == ["  needs no delegate", *lines[4:]] and len(lines) == 6
    assert lines[5].startswith("  the change of loss and AUC was not measured. Give --eval_files")
    said = json.loads((tmp_path / "out" / "signature.json").read_text())["inputs"]
    assert said == {
        "price": {"dtype": "float32", "shape": [None, 1]},
        "user": {"dtype": "int64", "shape": [None]}, "city": {"dtype": "int64", "shape": [None]},
        "tag": {"dtype": "int64", "shape": [None]},
        "tag/row_splits": {"dtype": "int64", "shape": [None]},
        "city_x_tag": {"dtype": "int64", "shape": [None]},
        "city_x_tag/row_splits": {"dtype": "int64", "shape": [None]},
    }  # fmt: skip


@pytest.mark.ci
def test_strings_need_the_flex_delegate(ads, tmp_path):
    """The interpreter of TensorFlow 2.15 has the delegate; the one of 2.21 does not."""
    ops = "RaggedTensorToSparse, SparseCross, StringToHashBucketFast"
    try:
        lines = convert(ads, tmp_path, "tflite")
    except ExportError as error:
        assert str(error) == (
            f"TensorFlow Lite has no ops for {ops}, and the interpreter of TensorFlow "
            f"{tf.__version__} cannot run TensorFlow's ops, so the model cannot be checked. "
            f"{_COLUMNS} Or convert the model with TensorFlow 2.15, whose interpreter can run them."
        )
        assert not tf.__version__.startswith("2.15.")
        assert os.listdir(tmp_path) == []
        return
    assert lines[3] == f"  needs the Flex delegate for {ops}; send two rows once before one row"
    said = json.loads((tmp_path / "out" / "signature.json").read_text())
    assert said["tensorflow_ops"] == ops.split(", ")


def test_an_op_that_tensorflow_lite_lacks_is_named(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None])
        y = tf.compat.v1.py_func(np.cos, [x], tf.float32)
        y.set_shape([None])
        tf.compat.v1.saved_model.simple_save(session, f"{tmp_path}/m", {"x": x}, {"y": y})
    with pytest.raises(ExportError) as error:
        lite.convert(f"{tmp_path}/m", "serving_default", "tflite", [], {"x": None})
    assert str(error.value) == f"TensorFlow Lite cannot convert the ops PyFunc. {_COLUMNS}"


def test_an_export_without_its_spec(numbers, tmp_path):
    export, path = numbers
    bare = f"{tmp_path}/bare"
    os.makedirs(bare)
    with open(f"{export}/saved_model.pb", "rb") as read, open(f"{bare}/saved_model.pb", "wb") as to:
        to.write(read.read())
    with pytest.raises(ek.ConfigError) as error:
        convert((bare, path), tmp_path, "tflite")
    assert str(error.value) == (
        f"--export_dir={bare} has no {bare}/assets.extra/feature_spec/spec.json, which says how to "
        "send rows. Use an export of estimator_kit."
    )


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"transform": "freeze", "transform_inputs": "columns"},
         "--transform_inputs=columns is only for --transform=tflite, tflite_dynamic, tflite_int8 "
         "and onnx. Remove it."),
    ],
)  # fmt: skip
def test_flags_that_do_not_go_together(fields, problem):
    with pytest.raises(ek.ConfigError) as error:
        ek.ExperimentConfig(
            mode="transform", export_dir="e", transform_dir="d", predict_files=("p",), **fields
        )
    assert problem in str(error.value)


def test_onnx_is_an_extra(numbers, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ek.ConfigError) as error:
        convert(numbers, tmp_path, "onnx")
    assert str(error.value) == (
        "--transform=onnx needs the packages onnx, onnxruntime and tf2onnx (import of onnx halted; "
        "None in sys.modules). Install them with `pip install 'estimator-kit[onnx]'`, or, with "
        "Python 3.9, with `pip install --no-deps onnx==1.17.0 onnxruntime==1.19.2 tf2onnx==1.16.1`."
    )


@pytest.fixture
def onnx():
    for package in ("onnx", "onnxruntime", "tf2onnx"):
        pytest.importorskip(package)


@pytest.mark.usefixtures("onnx")
def test_a_file_for_onnx_runtime(numbers, tmp_path):
    lines = convert(numbers, tmp_path, "onnx")
    assert lines[0] == f"onnx: {tmp_path}/out/model.onnx, from features"
    assert lines[3].startswith("  largest difference on 60 rows: ")
    model = onnx_graph.Model((tmp_path / "out" / "model.onnx").read_bytes())
    first = make_rows(1)[0]
    row = {
        "price": np.array([first["price"]], np.float32), "hour": np.array([0]),
        "time": np.array([1767225600]),
    }  # fmt: skip
    found, expected = model.ask([row]), answers(numbers)
    assert set(found) == set(expected)
    np.testing.assert_allclose(found["click/logits"][0], expected["click/logits"][0], atol=1e-6)
    assert found["buy/classes"].tolist() == [expected["buy/classes"][0].tolist()]


@pytest.mark.nightly
@pytest.mark.usefixtures("onnx")
def test_what_onnx_has_no_ops_for_is_named(ads, tmp_path):
    with pytest.raises(ExportError) as error:
        convert(ads, tmp_path, "onnx")
    assert str(error.value) == (
        "ONNX has no ops for HashTableV2, LookupTableFindV2, LookupTableSizeV2, SparseCross, "
        "StringToHashBucketFast. Use --transform_inputs=columns, which leaves strings and their "
        "lookups to the app."
    )
    with pytest.raises(ExportError, match="as happens where a list is empty"):
        convert(ads, tmp_path, "onnx", transform_inputs="columns")
    assert os.listdir(tmp_path) == []
