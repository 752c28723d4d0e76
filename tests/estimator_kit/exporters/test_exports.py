"""An export: its signatures, its extra files, and that it gets its name only if it answers."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

import estimator_kit as ek
import feature_specs
from estimator_kit.commands import inspect, transform
from estimator_kit.config.areas.serving import ServedModel
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of
from estimator_kit.errors import ExportError
from estimator_kit.exporters import (
    c_session,
    sample_rows,
    saved_model,
    saved_model_graph,
    skew,
    verification,
)
from estimator_kit.exporters.extra_files import Origin
from estimator_kit.exporters.saved_model import RunExports
from estimator_kit.exporters.signatures import CopyError, copied
from estimator_kit.scoring import export as exports
from estimator_kit.serving import config_files
from feature_specs.files import file_systems
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT, make_rows, place
from tests.estimator_kit.small_training import trained_wide_deep

NOW = 1_700_000_000.0


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """An Estimator after one step, its spec, and 40 rows in a file."""
    folder = tmp_path_factory.mktemp("ads")
    rows = make_rows(40)
    writing.write_examples(f"{folder}/eval.tfrecord", rows)
    made, spec = trained_wide_deep(folder, DOCUMENT, rows, steps=1)
    return made, spec, f"{folder}/eval.tfrecord"


@pytest.fixture(scope="module")
def rows(trained):
    _, spec, path = trained
    return sample_rows.sample_rows(spec, [path])


@pytest.fixture(scope="module")
def export(trained, rows, tmp_path_factory):
    made, spec, _ = trained
    folder = str(tmp_path_factory.mktemp("final"))
    origin = Origin("best", {"loss": 0.5}, {"model": "wide_deep"}, "--max_steps=1\n")
    path = saved_model.export_saved_model(made, spec, folder, rows=rows, origin=origin, now=NOW)
    assert path == f"{folder}/1700000000"
    return pathlib.Path(path)


def read(path):
    return json.loads(path.read_text())


def test_every_signature_is_there_and_takes_any_number_of_rows(export, rows):
    loaded = tf.saved_model.load(str(export)).signatures
    assert set(loaded) == {
        "serving_default", "predict_examples", "predict_raw",
        *(f"{method}/{name}" for method in ("predict", "classify", "regress")
          for name in ("click", "buy")),
    }  # fmt: skip
    for name, signature in loaded.items():
        inputs = signature.structured_input_signature[1]
        assert all(spec.shape[0] is None for spec in inputs.values()), name
    raw = loaded["predict_raw"].structured_input_signature[1]
    assert {name: (spec.dtype.name, spec.shape.rank) for name, spec in raw.items()} == {
        "price": ("float32", 1), "user": ("string", 1), "city": ("string", 1),
        "tags": ("string", 2),
    }  # fmt: skip
    assert set(loaded["classify/click"].structured_outputs) == {"classes", "scores"}
    assert list(loaded["classify/click"].structured_input_signature[1]) == ["inputs"]
    assert list(loaded["regress/click"].structured_outputs) == ["outputs"]
    found = loaded["predict/click"](examples=tf.constant(rows.records[:2]))
    assert found["all_classes"].numpy().tolist() == [[b"0", b"1"]] * 2
    assert found["probabilities"].shape == (2, 2)
    assert not [name for name in loaded["predict_raw"].structured_outputs if "all_" in name]
    # TensorFlow Serving may split requests: no output differs in width between batches.
    assert config_files.reason_against_splitting([ServedModel("ads", str(export.parent))]) is None


def test_extra_files(export, trained):
    extra = export / "assets.extra"
    assert (extra / "flags.txt").read_text() == "--max_steps=1\n"
    assert read(extra / "metrics.json") == {"loss": 0.5}
    lineage = read(extra / "lineage.json")
    assert lineage["created"] == "2023-11-14T22:13:20+00:00"
    expected = {
        "exporter": "best", "global_step": 1, "model": "wide_deep", "checkpoint": "model.ckpt-1",
        "feature_spec": trained[1].fingerprint(),
    }  # fmt: skip
    assert {key: lineage[key] for key in expected} == expected
    check = lineage["check"]
    assert (check["rows"], check["rows_as_tensors"], check["signatures"]) == (40, 40, 9)
    assert check["largest_difference"] <= check["tolerance"] == 1e-5


def test_the_warm_up_is_of_prediction_logs(export, rows):
    logs_pb2 = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    path = str(export / "assets.extra" / "tf_serving_warmup_requests")
    found = {}
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        log = logs_pb2.PredictionLog.FromString(record)
        assert log.SerializeToString(deterministic=True) == record  # It has no unknown fields.
        kind = log.WhichOneof("log_type")
        request = getattr(log, kind).request
        assert request.model_spec.name == "clicks"
        found[request.model_spec.signature_name] = (kind, request)
    kinds = {name: kind for name, (kind, _) in found.items()}
    assert kinds == {
        "serving_default": "predict_log", "predict_examples": "predict_log",
        "predict_raw": "predict_log", "predict/click": "predict_log",
        "predict/buy": "predict_log", "classify/click": "classify_log",
        "classify/buy": "classify_log", "regress/click": "regress_log",
        "regress/buy": "regress_log",
    }  # fmt: skip
    examples = tf.make_ndarray(found["predict_examples"][1].inputs["examples"])
    assert examples.tolist() == rows.records[:8]
    price = tf.make_ndarray(found["predict_raw"][1].inputs["price"])
    np.testing.assert_array_equal(price, rows.raw["price"][:8])
    (first, *_) = found["classify/click"][1].input.example_list.examples
    assert first.features.feature["price"].float_list.value[0] == price[0]


def test_client_examples_are_of_a_real_row_without_its_labels(export):
    row, folder = make_rows(1)[0], export / "client_examples"
    request = read(folder / "request.json")
    assert request["signature_name"] == "predict_raw"
    assert request["inputs"] == {
        "price": [pytest.approx(row["price"])], "user": [row["user"] or ""],
        "city": [row["city"]], "tags": [row["tags"]],
    }  # fmt: skip
    # The record is not UTF-8 text, so it is {"b64": ...}.
    (sent,) = read(folder / "request_examples.json")["inputs"]["examples"]
    import base64

    example = tf.train.Example.FromString(base64.b64decode(sent["b64"]))
    assert set(example.features.feature) <= {"price", "user", "city", "tags"}
    assert '/v1/models/${2:-clicks}:predict"' in (folder / "curl.sh").read_text()
    predict_pb2 = pytest.importorskip("tensorflow_serving.apis.predict_pb2")
    asked = predict_pb2.PredictRequest.FromString((folder / "request.pb").read_bytes())
    assert tf.make_ndarray(asked.inputs["examples"]).tolist() == [example.SerializeToString(
        deterministic=True)]  # fmt: skip
    compile((folder / "predict_grpc.py").read_text(), "predict_grpc.py", "exec")


@pytest.mark.nightly
def test_another_default_signature(trained, rows, tmp_path):
    made, spec, _ = trained
    path = saved_model.export_saved_model(
        made, spec, str(tmp_path), rows=rows, default_signature="classify/click"
    )
    signatures = tf.saved_model.load(path).signatures
    assert set(signatures["serving_default"].structured_outputs) == {"classes", "scores"}
    (batch,) = exports.predictions(exports.read(path, ""), rows.files, 50)
    assert "click/logits" in batch and len(batch["buy/logits"]) == 40
    with pytest.raises(ek.ConfigError) as error:
        saved_model.export_saved_model(made, spec, str(tmp_path), default_signature="predict/clik")
    assert str(error.value) == (
        "--default_signature=predict/clik: the model has no such signature. Did you mean "
        "'predict/click'?"
    )
    assert sorted(os.listdir(tmp_path)) == [os.path.basename(path)]


def test_an_export_that_answers_differently_is_refused_and_removed(trained, rows, tmp_path):
    made, spec, _ = trained
    price = rows.features["price"].copy()
    price[7] += 0.25
    other = {**rows.features, "price": price}
    wrong = sample_rows.SampleRows(rows.files, rows.records, other, rows.raw, rows.sendable)
    checkpoint, was = made.latest_checkpoint(), rows.features["price"][7, 0]
    filtering = {**DOCUMENT, "filter": [{"feature": "city", "not_in": ["nowhere"]}]}
    filtered = dataclasses.replace(spec, filter=feature_specs.parse(filtering).filter)
    for used, kept in ((spec, ""), (filtered, " of the rows that the filter keeps")):
        with pytest.raises(ExportError) as error:
            saved_model.export_saved_model(made, used, str(tmp_path), rows=wrong)
        assert str(error.value) == (
            f"the export of {checkpoint} was refused: the input pipeline and the export read these "
            "features differently:\n"
            f"  column 'price' of the feature price: row 7{kept} has {price[7, 0]!s} in the "
            f"input pipeline and {was!s} in the export"
        )
        assert os.listdir(tmp_path) == []


def test_a_damaged_export_is_refused(trained, rows, tmp_path, monkeypatch):
    made, spec, _ = trained

    def cut(loader, staged, *rest):
        path = next(pathlib.Path(staged).glob("variables/*.data*"))
        path.write_bytes(path.read_bytes()[:-9])
        assert os.listdir(tmp_path) == [os.path.basename(staged)]
        assert not os.path.basename(staged).isdigit()
        return verify(loader, staged, *rest)

    verify = verification.verify
    monkeypatch.setattr(verification, "verify", cut)
    with pytest.raises(ExportError, match=r"was refused: TensorFlow's C\+\+ loader: "):
        saved_model.export_saved_model(made, spec, str(tmp_path), rows=rows)
    assert os.listdir(tmp_path) == []


def test_without_rows_it_says_that_it_is_not_checked(trained, tmp_path, caplog):
    made, spec, _ = trained
    with caplog.at_level("INFO", "estimator_kit"):
        path = saved_model.export_saved_model(made, spec, str(tmp_path))
    text = "not checked: no rows to send. Give --eval_files."
    assert read(pathlib.Path(path) / "assets.extra" / "lineage.json")["check"] == text
    said = [record.getMessage() for record in caplog.records if record.name == "estimator_kit"]
    assert said == [f"the export of {made.latest_checkpoint()} is {text}"]


def test_the_c_session_says_what_is_wrong(export):
    lib = c_session.load_library(c_session.library_path(os.path.dirname(tf.__file__)))
    session = c_session.CSession(lib, str(export))
    with pytest.raises(c_session.CApiError, match=r"no signature 'predict'\. Use one of: "):
        session.ask("predict", {})
    with pytest.raises(c_session.CApiError, match="'predict_examples' takes examples, got x"):
        session.ask("predict_examples", {"x": np.zeros(1)})
    with pytest.raises(c_session.CApiError, match=r"no signatures predict\. Use one of: "):
        session.ask_together(["predict", "predict/click"], np.array([b""], object))
    with pytest.raises(c_session.CApiError, match=r"not one input\. Use one of: "):
        session.ask_together(["predict_raw", "predict/click"], np.array([b""], object))
    with pytest.raises(c_session.CApiError, match="Could not parse"):
        session.ask("predict_examples", {"examples": np.array([b"\xff"], object)})
    session.close()
    with pytest.raises(c_session.CApiError):
        c_session.CSession(lib, str(export / "nothing"))


@pytest.mark.parametrize(
    "array",
    [
        np.array([[1.5, np.nan]], np.float32), np.array([], np.int64), np.array(True),
        np.array([[b"a\0", b""]], object),
    ],
)  # fmt: skip
def test_arrays_go_through_json_as_they_are(array):
    found = c_session.decoded(json.loads(json.dumps(c_session.encoded(array))))
    assert found.dtype == array.dtype and found.shape == array.shape
    np.testing.assert_array_equal(found, array)


def test_answers_may_differ_by_what_sums_of_float32_do():
    """Logits of a trained model for 100 rows and for 3. The tolerance for features is smaller."""
    expected = {"logits": np.float32([[9.504173], [-1.0755432]])}
    rounded = {"logits": np.float32([[9.504173], [-1.075542]])}
    assert skew.check_answers(expected, rounded, "s") == pytest.approx(1.1e-6, rel=0.02)
    with pytest.raises(skew.Skew, match="logits"):
        skew.check_answers(expected, {"logits": expected["logits"] + np.float32(1e-4)}, "s")
    spec = feature_specs.parse(DOCUMENT)
    read = {"price": np.float32([[0.5]])}
    names = {"price": ("p",)}
    skew.check_features(spec, read, {"p": np.float32([[0.5 + 5e-7]])}, names)
    with pytest.raises(skew.Skew, match="column 'price' of the feature price"):
        skew.check_features(spec, read, {"p": np.float32([[0.5 + 3e-6]])}, names)


def test_a_difference_counts_in_the_unit_of_the_objective():
    """A price near 0 is a sum of terms of the size of `scale`, whose rounding errors it has."""
    expected = {
        "price/predictions": np.float32([[-25.288086]]),
        "click/logits": np.float32([[0.1]]),
    }
    prices = {**expected, "price/predictions": np.float32([[-25.288574]])}
    units = {"price": 3989.4}
    with pytest.raises(skew.Skew, match="price/predictions"):
        skew.check_answers(expected, prices, "s")
    # 0.000488 of 3989.4.
    assert skew.check_answers(expected, prices, "s", units=units) == pytest.approx(
        1.22e-7, rel=0.01
    )
    clicks = {**expected, "click/logits": np.float32([[0.1005]])}
    with pytest.raises(skew.Skew, match="click/logits"):
        skew.check_answers(expected, clicks, "s", units=units)
    document = {
        **DOCUMENT,
        "labels": {"paid": {"dtype": "float32"}},
        "objectives": {"paid": {"head": "regression", "center": 3932.8, "scale": 3989.4}},
    }
    assert skew.units_of(feature_specs.parse(document)) == {"paid": 3989.4}


def test_padding_of_lists_may_have_another_width():
    """A list is padded to the longest list of its batch."""
    wide = np.array([[b"a", b"b", b""], [b"c", b"", b""]], object)
    for value, other in ((wide, wide[:, :2]), (wide[:, :2], wide)):
        assert skew.check_answers({"tags": value}, {"tags": other}, "s") == 0
    numbers = np.float32([[1, np.nan, np.nan], [2, 3, np.nan]])
    assert skew.check_answers({"n": numbers}, {"n": numbers[:, :2]}, "s") == 0
    steps = np.zeros([2, 3, 2], np.int64)
    steps[:, 1, 0] = 5
    assert skew.check_answers({"n": steps}, {"n": steps[:, :2, :1]}, "s") == 0
    for value, other in ((wide, wide[:, :1]), (wide, wide[:1]), (wide, wide[:, 0]),
                         (numbers, numbers[:, :1])):  # fmt: skip
        with pytest.raises(skew.Skew, match=r"'x': the shape is .* through the input pipeline and"):
            skew.check_answers({"x": value}, {"x": other}, "s")
    with pytest.raises(skew.Skew, match="'x' of row 0 is"):
        skew.check_answers({"x": wide}, {"x": wide[:, :2][::-1]}, "s")


def test_a_raw_feature_that_is_read_differently_is_named(document):
    spec = feature_specs.parse({**document, "raw": ["user"]})
    read = {"user/raw": np.array([b"ann", b""], object)}
    names = {"user/raw": ("features/user-raw:0",)}
    same = {"features/user-raw:0": read["user/raw"]}
    skew.check_features(spec, read, same, names)
    with pytest.raises(skew.Skew, match="the feature user, in `raw`: row 1 has b'' in the input"):
        skew.check_features(spec, read, {"features/user-raw:0": np.array([b"ann", b"b"])}, names)


def test_ids_may_differ_where_numbers_do_by_little():
    expected = {"p": np.array([[0.5], [0.9]]), "id": np.array([[0], [1]])}
    tie = {"p": np.array([[0.5 + 1e-7], [0.9]]), "id": np.array([[1], [1]])}
    assert skew.check_answers(expected, tie, "s") == pytest.approx(1e-7, rel=1e-3)
    with pytest.raises(skew.Skew) as error:
        skew.check_answers(expected, {**tie, "id": np.array([[1], [0]])}, "signature s")
    assert str(error.value) == (
        "signature s: 'id' of row 1 is [1] through the input pipeline and [0] through the export"
    )
    with pytest.raises(skew.Skew) as error:
        skew.check_answers(expected, {**tie, "p": np.array([[0.5], [0.8]])}, "signature s")
    assert str(error.value) == (
        "signature s: 'p' of row 1 is [0.9] through the input pipeline and [0.8] through the export"
    )


def test_a_part_of_a_graph_on_other_inputs():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.constant([1.0, 2.0])
        first, second = tf.identity(x), tf.constant([3.0, 4.0])
        weight = tf.compat.v1.get_variable("w", [], initializer=tf.constant_initializer(10.0))
        product = first * weight
        with tf.control_dependencies([tf.debugging.assert_positive(first, message="not positive")]):
            total = tf.reduce_sum(product)
        new_total, new_product, shared, same = copied(
            [total, product, weight.read_value(), first], [(first, second)], name="again"
        )
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run([new_total, shared]) == [70.0, 10.0]
        assert session.run(new_product).tolist() == [30.0, 40.0]
        assert same is second
        assert len(tf.compat.v1.global_variables()) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="not positive"):
            session.run(new_total, {second: [-1.0, 1.0]})
        frame = tf.raw_ops.Switch(data=first, pred=True).output_true
        with pytest.raises(CopyError, match="TensorFlow 1 loops or conditions, for example Switch"):
            copied([frame], [(first, second)], name="again")


def config_of(path, **fields):
    return ek.ExperimentConfig(mode="inspect", model_dir=str(path), **fields)


def test_inspecting_an_export(export, tmp_path):
    config = ek.ExperimentConfig(
        mode="inspect", export_dir=str(export), graph_dir=str(tmp_path / "graph")
    )
    lines = inspect.inspect(command_of(config)).splitlines()
    assert lines[0] == f"export {export}, of TensorFlow {tf.__version__}"
    assert lines[1] == "  of step 1, exporter best"
    assert lines[2].startswith("  checked with 40 rows; the largest difference was ")
    assert "9 signatures" in lines
    at = lines.index("  classify/click (classify)")
    assert lines[at + 1 : at + 5] == [
        "    takes inputs: string [?]", "    gives classes: string [?, 2]",
        "    gives scores: float32 [?, 2]", "    needs city, price, tags, user",
    ]  # fmt: skip
    at = lines.index("  predict_raw (predict)")
    assert lines[at + 1 : at + 5] == [
        "    takes city: string [?]", "    takes price: float32 [?]",
        "    takes tags: string [?, ?]", "    takes user: string [?]",
    ]  # fmt: skip
    # wide: 2 logits for price, user 20, city 3, tag 10, cross 30, a bias; deep: see the shapes.
    assert any(line.endswith("float32 [20, 2]  linear/linear_model/user/weights") for line in lines)
    assert any(line.endswith("  VarHandleOp") for line in lines)
    assert "0 assets" in lines
    at = lines.index("1 vocabularies")
    assert lines[at + 1].split() == ["2", "city:", "a", "list", "in", "the", "spec"]
    written = str(tmp_path / "graph" / "events.out.tfevents.0.graph")
    events = list(tf.compat.v1.train.summary_iterator(written))
    graph = tf.compat.v1.GraphDef.FromString(events[1].graph_def)
    assert {"VarHandleOp", "ParseExampleV2"} <= {node.op for node in graph.node}


def test_inspecting_a_checkpoint_and_other_folders(trained, tmp_path):
    checkpoint = trained[0].latest_checkpoint()
    lines = inspect.inspect(command_of(config_of(checkpoint))).splitlines()
    assert lines[0] == f"checkpoint {checkpoint}"
    assert any(line.split() == ["8", "int64", "[]", "global_step"] for line in lines)
    lines = inspect.inspect(command_of(config_of(trained[0].model_dir))).splitlines()
    assert lines[0].endswith("/clicks, latest checkpoint model.ckpt-1")
    with pytest.raises(ek.ConfigError) as error:
        inspect.inspect(command_of(config_of(tmp_path)))
    assert str(error.value) == (
        f"--model_dir={tmp_path}: expected an export (with saved_model.pb), a checkpoint (a path "
        "without .index), or a folder of a training or of cycles. For the model of --spec, give an "
        "empty --model_dir=."
    )
    with pytest.raises(ek.ConfigError, match=r"--graph_dir: .* has no graph"):
        inspect.inspect(command_of(config_of(checkpoint, graph_dir=str(tmp_path))))


@pytest.mark.parametrize("name", ["saved_model.pb", "saved_model.pbtxt"])
def test_a_damaged_graph_is_named(export, tmp_path, name):
    file, whole = tmp_path / name, saved_model_graph.read_saved_model(str(export))
    text = text_format.MessageToString(whole).encode()
    good = text if name.endswith("txt") else whole.SerializeToString()
    file.write_bytes(good)
    assert saved_model_graph.read_saved_model(str(tmp_path)) == whole
    reasons = {}
    for what, content in {
        "empty": b"", "half": good[: len(good) // 2], "other": b"\xff" + good
    }.items():  # fmt: skip
        file.write_bytes(content)
        with pytest.raises(ExportError) as error:
            inspect.inspect(command_of(config_of(tmp_path)))
        start, end = f"{file} is damaged: ", ". Use another version, or export again."
        assert str(error.value).startswith(start) and str(error.value).endswith(end)
        reasons[what] = str(error.value)[len(start) : -len(end)]
    assert reasons["empty"] == "it has no graph"
    assert all(reasons.values())
    file.unlink()
    file.mkdir()
    with pytest.raises(ExportError, match=f"^{file} is damaged: it is a folder. Use another"):
        inspect.inspect(command_of(config_of(tmp_path)))
    with pytest.raises(ExportError, match=f"^{file} is damaged: it is a folder. Use another"):
        transforming(tmp_path, "rows", "text", tmp_path / "out")


@pytest.mark.parametrize("graph", [b"node { name: 3", b'node { name: "\xff" }'])
def test_inspecting_a_model_directory_whose_graph_is_damaged(trained, tmp_path, graph):
    """Such a file is read if the flags of the training are unknown."""
    folder = tmp_path / "model"
    shutil.copytree(trained[0].model_dir, folder)
    (folder / "flags.txt").unlink()
    (folder / "graph.pbtxt").write_bytes(graph)
    with pytest.raises(ek.ConfigError, match=r"graph\.pbtxt is damaged: .*\. Remove it\.$"):
        inspect.inspect(command_of(config_of(folder)))


def without_a_node(path):
    saved = inspect.read_saved_model(str(path))
    del saved.meta_graphs[0].graph_def.node[0]
    (path / "saved_model.pb").write_bytes(saved.SerializeToString())


def with_half_the_variables(path):
    for file in (path / "variables").glob("*.data-*"):
        file.write_bytes(file.read_bytes()[:100])


@pytest.mark.parametrize("damage", [without_a_node, with_half_the_variables])
def test_predicting_with_an_export_that_does_not_load(export, rows, tmp_path, damage):
    folder = tmp_path / "1"
    shutil.copytree(export, folder)
    damage(folder)
    with pytest.raises(ExportError) as error:
        list(exports.predictions(exports.read(str(folder), ""), [], 5))
    assert str(error.value).startswith(f"--export_dir={folder} does not load: ")
    assert str(error.value).endswith(". Use another version, or export again.")


def transforming(export, path, kind, folder, **fields):
    config = ek.ExperimentConfig(
        mode="transform", export_dir=str(export), transform=kind, predict_files=(path,),
        transform_dir=str(folder), **fields,
    )  # fmt: skip
    return transform.transform(command_of(config))


def ops_of(export):
    """The number of ops of each type in the serving graph of an export."""
    meta = saved_model_graph.serving_graph(saved_model_graph.read_saved_model(str(export)), "")
    return saved_model_graph.op_counts(meta.graph_def)


@pytest.mark.parametrize(
    "kind",
    [
        "optimize",
        pytest.param("text", marks=pytest.mark.ci),
        pytest.param("freeze", marks=pytest.mark.nightly),  # Each file of a runtime is frozen, too.
    ],
)
def test_an_export_in_another_form_answers_the_same(export, trained, tmp_path, kind):
    _, _, path = trained
    text = transforming(export, path, kind, tmp_path / "out")
    assert text.splitlines()[0] == f"{kind}: {tmp_path}/out"
    assert text.splitlines()[3].startswith("  largest difference on 40 rows: ")
    ops = ops_of(tmp_path / "out")
    assert (ops["VarHandleOp"] > 0) == (kind == "text")
    lines, _ = inspect._export(str(tmp_path / "out"))
    constants = "no variables: a transformation has made them constants of the graph"
    assert (constants in lines) == (kind != "text")
    if kind == "optimize":
        assert sum(ops.values()) < sum(ops_of(export).values())
    if kind == "text":
        transforming(tmp_path / "out", path, "binary", tmp_path / "back")
        again = saved_model_graph.read_saved_model(str(tmp_path / "back"))
        assert again == saved_model_graph.read_saved_model(str(export))
    assert sorted(os.listdir(tmp_path))[-1] == "out"


@pytest.mark.parametrize("with_spec", [True, False])
def test_records_that_cannot_be_used(export, tmp_path, with_spec):
    source = export
    if not with_spec:
        source = shutil.copytree(export, tmp_path / "bare")
        shutil.rmtree(source / "assets.extra")
    out = tmp_path / "out"

    def refused(name, error):
        with pytest.raises(error) as caught:
            transforming(source, f"{tmp_path}/{name}", "freeze", out)
        assert not out.exists()
        return str(caught.value)

    for name in ("a.parquet", "empty.tfrecord"):
        (tmp_path / name).write_bytes(b"")
    assert refused("a.parquet", ek.ConfigError) == (
        f"--predict_files: expected TFRecord files, got the Parquet file {tmp_path}/a.parquet. "
        "Convert it with --mode=convert."
    )
    path = f"{tmp_path}/empty.tfrecord"
    assert refused("empty.tfrecord", ek.DataError) == (
        f"{path}: record 0 at byte 0: the file is empty: it has 0 bytes"
    )
    writing.write_examples(f"{tmp_path}/none.tfrecord.gz", [])
    assert refused("none.tfrecord.gz", ek.DataError) == (
        f"--predict_files: no records in {tmp_path}/none.tfrecord.gz. Name files with records."
    )
    path = tmp_path / "flipped.tfrecord"
    writing.write_examples(str(path), make_rows(3))
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    text = refused("flipped.tfrecord", ek.DataError)
    assert text.startswith(f"{path}: {place(str(path), 2)}: the checksum of its payload of ")
    if with_spec:
        path = f"{tmp_path}/nan.tfrecord"
        writing.write_examples(path, [{**row, "price": float("nan")} for row in make_rows(2)])
        assert refused("nan.tfrecord", ek.DataError) == (
            f"{path}: {place(path, 0)}: feature 'price' is nan, expected a finite number"
        )


def test_a_result_that_answers_differently_is_refused(export, trained, tmp_path, monkeypatch):
    def other(source, meta):
        graph = made(source, meta)
        for node in graph.node:
            if node.name.endswith("bias_weights"):
                node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto([1.0, 2.0]))
        return graph

    made = saved_model_graph.frozen
    monkeypatch.setattr(transform, "frozen", other)
    with pytest.raises(ExportError, match="the result of --mode=transform was refused: signature"):
        transforming(export, trained[2], "freeze", tmp_path / "out")
    assert os.listdir(tmp_path) == []
    with pytest.raises(ek.ConfigError, match=r"exists already\. Name a new folder"):
        transforming(export, trained[2], "freeze", tmp_path)


def test_a_second_export_of_a_checkpoint_is_a_copy_of_the_checked_one(
    trained, tmp_path, monkeypatch
):
    """The graph is made and checked once. The lineage says where the copy is from."""
    made, spec, path = trained
    checks = []
    real = verification.verify

    def verify(loader, folder, *arguments):
        checks.append(folder)
        return real(loader, folder, *arguments)

    monkeypatch.setattr(verification, "verify", verify)
    config = ExperimentConfig(
        spec="s.yaml", train_files=("a",), eval_files=(path,), model_dir=str(tmp_path), max_steps=9
    )
    run = RunExports(command_of(config), spec, [path])
    checkpoint = made.latest_checkpoint()
    first = run.write(made, "best", checkpoint, {"loss": 0.5})
    second = run.write(made, "final", None, {"loss": 0.25})
    assert len(checks) == 1
    assert pathlib.Path(second).parent == tmp_path / "export/final"
    there = [
        {str(p.relative_to(folder)): p.read_bytes() for p in pathlib.Path(folder).rglob("*.*")
         if p.is_file()}
        for folder in (first, second)
    ]  # fmt: skip
    changed = ["assets.extra/lineage.json", "assets.extra/metrics.json"]
    assert sorted(n for n in there[0] if there[0][n] != there[1][n]) == changed
    assert there[0].keys() == there[1].keys()
    before, after = (json.loads(files[changed[0]]) for files in there)
    assert after == {
        **before, "created": after["created"], "exporter": "final", "copy_of": first,
    }  # fmt: skip
    assert after["check"]["rows"] == 40 and json.loads(there[1][changed[1]]) == {"loss": 0.25}
    # Another checkpoint, or an export that retention has removed, is written again.
    shutil.rmtree(first)
    third = run.write(made, "final", checkpoint)
    assert len(checks) == 2 and "copy_of" not in read(pathlib.Path(third, changed[0]))


def test_a_copy_with_other_bytes_is_refused(export, tmp_path, monkeypatch):
    real = file_systems.copy_folder

    def damaging(source, target):
        real(source, target)
        (pathlib.Path(target) / "saved_model.pb").write_bytes(b"half")

    monkeypatch.setattr(file_systems, "copy_folder", damaging)
    with pytest.raises(ExportError) as error:
        saved_model.copy_saved_model(str(export), str(tmp_path), origin=Origin(), now=NOW)
    staged, _, problem = str(error.value).partition(": ")
    assert staged == f"{tmp_path}/.tmp-version-1"
    assert problem == (
        f"expected a copy of {export}, got other bytes in saved_model.pb. Check the disk, and "
        "export again."
    )
    assert list(tmp_path.iterdir()) == []
