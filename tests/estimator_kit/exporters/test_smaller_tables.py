"""Exports with int8 and float16 tables: they answer as with tables that NumPy has rounded."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.errors import ExportError
from estimator_kit.exporters import saved_model_graph, smaller_tables

V1 = tf.compat.v1
SPEC = {
    "features": {
        "city": {"dtype": "string"},
        "tags": {"dtype": "string", "shape": "variable"},
        "shop": {"dtype": "int64"},
    },
    "columns": {
        "city": {"hash_bucket": "city", "size": 40},
        "tag": {"hash_bucket": "tags", "size": 30},
        "shop": {"growing": "shop", "rows": 20, "buckets": 5, "admit_every": 1},
        "city_emb": {"embedding": "city", "dimension": 6},
        "tag_emb": {"embedding": "tag", "dimension": 4, "max_norm": 0.4, "combiner": "sum"},
        "shop_emb": {"embedding": "shop", "dimension": 5},
    },
    "groups": {"deep": ["city_emb", "tag_emb", "shop_emb"], "wide": ["city", "shop"]},
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("smaller"), np.random.default_rng(2)
    rows = [
        {
            "city": f"c{random.integers(30)}", "shop": int(random.integers(25)), "y": i % 3 // 2,
            "tags": [f"t{random.integers(40)}" for _ in range(random.integers(4))],
        }
        for i in range(400)
    ]  # fmt: skip
    (folder / "spec.json").write_text(json.dumps(SPEC))
    ek.write_examples(f"{folder}/train.tfrecord", rows[:300])
    ek.write_examples(f"{folder}/eval.tfrecord", rows[300:])
    return folder


@pytest.fixture(scope="module")
def export(folder):
    found = ek.run(ek.ExperimentConfig(
        mode="train_and_evaluate", spec=f"{folder}/spec.json", model="wide_deep", batch_size=30,
        train_files=(f"{folder}/train.tfrecord",), eval_files=(f"{folder}/eval.tfrecord",),
        model_dir=f"{folder}/model", epochs=2, model_params={"hidden_units": [4]}, report="off",
    ))  # fmt: skip
    return found.exports["final"]


def transformed(folder, export, kind, target, **changes):
    fields = {"eval_files": (f"{folder}/eval.tfrecord",), **changes}
    ek.run(ek.ExperimentConfig(
        mode="transform", export_dir=str(export), transform=kind, transform_dir=str(target),
        predict_files=(f"{folder}/eval.tfrecord",), **fields,
    ))  # fmt: skip


def records(folder):
    dataset = tf.data.TFRecordDataset(f"{folder}/eval.tfrecord")
    return [record.numpy() for record in dataset]


def rounded(table, kind):
    if kind == "tables_float16":
        return table.astype(np.float16).astype(np.float32)
    scale = np.abs(table).max(1, keepdims=True) / np.float32(127)
    return np.rint(table / np.where(scale == 0, 1, scale)).astype(np.float32) * scale


@pytest.mark.parametrize("kind", ["tables_int8", "tables_float16"])
def test_answers_are_those_of_rounded_tables(folder, export, tmp_path, kind):
    transformed(folder, export, kind, tmp_path / "small")
    rows = np.array(records(folder), object)
    with tf.Graph().as_default(), V1.Session() as session:
        meta = V1.saved_model.load(session, [tf.saved_model.SERVING], export)
        tables = [
            variable
            for variable in V1.global_variables()
            if "embedding_weights" in variable.op.name
        ]  # fmt: skip
        assert len(tables) == 3  # Linear weights stay as they are.
        for table in tables:
            table.load(rounded(session.run(table), kind), session)
        signature = meta.signature_def["predict_examples"]
        fetched = {name: info.name for name, info in signature.outputs.items()}
        expected = session.run(fetched, {signature.inputs["examples"].name: rows})
    # As Python programs load it, and by the sessions of TensorFlow 1.
    found = tf.saved_model.load(str(tmp_path / "small")).signatures["predict_examples"](
        examples=tf.constant(rows)
    )
    with tf.Graph().as_default(), V1.Session() as session:
        meta = V1.saved_model.load(session, [tf.saved_model.SERVING], str(tmp_path / "small"))
        signature = meta.signature_def["predict_examples"]
        fetched = {name: info.name for name, info in signature.outputs.items()}
        again = session.run(fetched, {signature.inputs["examples"].name: rows})
        names = {v.op.name.rpartition("/")[2] for v in V1.global_variables()}
        assert ("scale" in names) == (kind == "tables_int8")
    for name, value in expected.items():
        if value.dtype.kind == "f":
            np.testing.assert_allclose(found[name].numpy(), value, rtol=1e-6, atol=1e-7)
            np.testing.assert_allclose(again[name], value, rtol=1e-6, atol=1e-7)
        else:
            assert found[name].numpy().tolist() == again[name].tolist() == value.tolist()


def test_the_result_has_no_table_in_float32_and_can_be_frozen(folder, export, tmp_path):
    transformed(folder, export, "tables_int8", tmp_path / "small")
    saved = saved_model_graph.read_saved_model(str(tmp_path / "small"))
    meta = saved_model_graph.serving_graph(saved, "")
    assert [node.name for node in meta.graph_def.node if "city_emb" in node.name]
    tables = [n.name for n in meta.graph_def.node if n.name.endswith("embedding_weights")]
    assert tables == []
    reader = tf.train.load_checkpoint(str(tmp_path / "small/variables/variables"))
    shapes = {
        n.rpartition("input_layer/")[2]: s for n, s in reader.get_variable_to_shape_map().items()
    }
    assert shapes["city_embedding/embedding_weights/int8"] == [40, 6]
    assert shapes["city_embedding/embedding_weights/scale"] == [40, 1]
    assert "city_embedding/embedding_weights" not in shapes
    transformed(folder, tmp_path / "small", "optimize", tmp_path / "folded")


def test_what_is_refused(folder, export, tmp_path):
    with pytest.raises(ek.ConfigError, match="Give --eval_files: the loss on them decides"):
        transformed(folder, export, "tables_int8", tmp_path / "no", eval_files=())
    with pytest.raises(ExportError, match="signature predict_examples: "):
        transformed(folder, export, "tables_int8", tmp_path / "no", transform_tolerance=1e-9)
    with pytest.raises(ExportError, match="--transform_max_loss_increase=1e-12 allows"):
        transformed(
            folder, export, "tables_int8", tmp_path / "no", transform_max_loss_increase=1e-12
        )
    assert not (tmp_path / "no").exists()
    transformed(folder, export, "tables_int8", tmp_path / "once")
    with pytest.raises(ek.ConfigError, match="has no embedding table in float32 that only lookups"):
        transformed(folder, tmp_path / "once", "tables_int8", tmp_path / "no")
    shutil.rmtree(tmp_path / "once")


def exported(session, folder, ids, outputs):
    """An export without a spec, of a program that initializes its variables itself."""
    session.run(V1.global_variables_initializer())
    builder = V1.saved_model.Builder(str(folder))
    signature = V1.saved_model.predict_signature_def({"ids": ids}, outputs)
    builder.add_meta_graph_and_variables(session, [tf.saved_model.SERVING], {"predict": signature})
    builder.save()
    return str(folder)


def test_a_table_that_is_read_as_a_whole_stays(tmp_path):
    """Such as the items of a model of the next item, whose vectors also make the logits."""
    with tf.Graph().as_default(), V1.Session() as session:
        ids = V1.placeholder(tf.int64, [None], "ids")
        options = {"use_resource": True, "initializer": V1.constant_initializer(1.25)}
        both, only = (V1.get_variable(name, [6, 4], **options) for name in ("both", "only"))
        rows = tf.nn.embedding_lookup(both, ids) + tf.nn.embedding_lookup(only, ids)
        scores = tf.matmul(rows, both, transpose_b=True)
        source = exported(session, tmp_path / "export", ids, {"scores": scores})
    meta = saved_model_graph.serving_graph(saved_model_graph.read_saved_model(source), source)
    notes = smaller_tables.smaller(meta, None, source, str(tmp_path / "out"), "tables_int8")
    assert notes == ["both stays float32, because a signature also reads it as a whole."]
    names = {node.name for node in meta.graph_def.node}
    assert {"both", "only/int8", "only/scale"} <= names
    assert "only" not in names


@pytest.mark.parametrize(("kind", "value"), [("tables_float16", 70_000.0), ("tables_int8", np.nan)])
def test_a_number_that_does_not_fit_is_refused(tmp_path, kind, value):
    with tf.Graph().as_default(), V1.Session() as session:
        ids = V1.placeholder(tf.int64, [None], "ids")
        start = V1.constant_initializer([[1.0, value]])
        table = V1.get_variable("table", [1, 2], initializer=start, use_resource=True)
        rows = tf.nn.embedding_lookup(table, ids)
        source = exported(session, tmp_path / "export", ids, {"rows": rows})
    meta = saved_model_graph.serving_graph(saved_model_graph.read_saved_model(source), source)
    with pytest.raises(ExportError, match="the table table has NaN or numbers beyond"):
        smaller_tables.smaller(meta, None, source, str(tmp_path / "out"), kind)
