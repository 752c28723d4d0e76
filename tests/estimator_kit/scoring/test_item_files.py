"""--transform=item_vectors and item_index: products are scores, and an index finds the best."""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints import run_record
from estimator_kit.client import GrpcClient, RestClient, RowError, Rows, ServingError
from estimator_kit.config.modes import command_of
from estimator_kit.errors import ExportError
from estimator_kit.exporters import sample_rows, saved_model
from estimator_kit.models import find_model
from estimator_kit.scoring import export as exports
from estimator_kit.scoring import item_index, item_rows, item_vectors
from estimator_kit.scoring.rows import Batch
from input_pipelines.prepare.tables.table_format import Part
from input_pipelines.record_files import writing
from tests import rounding
from tests.conftest import DOCUMENT, make_rows, place
from tests.estimator_kit.serving.small_models import serving
from tests.estimator_kit.small_training import batch_of

WORDS = [f"w{i}" for i in range(30)]
CATALOGUE = {
    "features": {"item": {"dtype": "string", "shape": "variable"}},
    "columns": {
        "item": {"vocabulary": "item", "list": WORDS, "oov_buckets": 2, "sequence": True},
        "item_emb": {"embedding": "item", "dimension": 4},
    },
    "groups": {"steps": ["item_emb"]},
    "labels": {"next": {"dtype": "string", "shape": "variable", "missing": "mask"}},
    "objectives": {
        "next": {
            "head": "next_item",
            "items": "item",
            "metrics": [{"recall": 3}, {"coverage": 3}, {"popularity_lift": 3}],
        }
    },
}
TOWERS = {
    **{key: DOCUMENT[key] for key in ("features", "columns")},
    "groups": {"user": ["price", "tag_emb"], "item": ["user_emb", "city_hot"]},
    "labels": {"click": DOCUMENT["labels"]["click"]},
    "objectives": {"click": {"head": "binary"}},
}


def histories():
    rng = np.random.default_rng(3)
    words = [*WORDS, "unknown"]
    rows = [[words[i] for i in rng.integers(0, 31, n)] for n in (3, 1, 5, 0, 2, 4, 4, 2)]
    return [{"item": row, "next": [*row[1:], WORDS[7]][: len(row)]} for row in rows]


class Made:
    """A model after some steps, its export, and a file with its rows."""

    def __init__(self, folder, name, params, document, rows):
        self.spec, self.rows = feature_specs.parse(document), rows
        config = tf.estimator.RunConfig(
            f"{folder}/model", save_summary_steps=None, tf_random_seed=1
        )
        self.estimator = tf.estimator.Estimator(find_model(name)(self.spec, params), config=config)
        self.estimator.train(batch_of(self.spec, rows), steps=2)
        fields = {"spec": "s", "model_dir": config.model_dir, "train_files": ("t",), "max_steps": 1}
        run_record.write_record(command_of(ek.ExperimentConfig(mode="train", **fields)), self.spec)
        self.path = f"{folder}/rows.tfrecord"
        writing.write_examples(self.path, rows)
        self.export = saved_model.export_saved_model(
            self.estimator, self.spec, f"{folder}/export",
            rows=sample_rows.sample_rows(self.spec, [self.path]),
        )  # fmt: skip

    def predictions(self, name):
        found = self.estimator.predict(batch_of(self.spec, self.rows, labels=False))
        return np.array([row[name] for row in found])


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory):
    params = {"recurrent_units": [5], "tied": False, "item_bias": True, "learning_rate": 0.1}
    folder = tmp_path_factory.mktemp("catalogue")
    return Made(folder, "gru4rec", params, CATALOGUE, histories())


@pytest.fixture(scope="module")
def towers(tmp_path_factory):
    params = {"item_id": "user", "dimension": 5, "hidden_units": [4]}
    document = json.loads(json.dumps(TOWERS))
    used = ("price", "user", "tag", "city", "user_emb", "tag_emb", "city_hot")
    document["columns"] = {n: c for n, c in document["columns"].items() if n in used}
    # A required feature of the users, which records of items lack.
    document["features"]["price"] = {"dtype": "float32"}
    document["features"]["user"] = {"dtype": "string"}
    rows = [{**row, "user": row["user"] or "dan"} for row in make_rows(20)]
    return Made(tmp_path_factory.mktemp("towers"), "two_tower", params, document, rows)


def transform(made, folder, kind, **fields):
    given = {"predict_files": (made.path,), **fields}
    return ek.run(ek.ExperimentConfig(
        mode="transform", export_dir=made.export, transform=kind, transform_dir=f"{folder}/out",
        **given,
    ))  # fmt: skip


def refused(kind, *arguments, **fields):
    with pytest.raises(kind) as error:
        transform(*arguments, **fields)
    assert not pathlib.Path(arguments[1], "out").exists()
    return str(error.value)


def test_products_of_vectors_are_scores(catalogue, tmp_path):
    scores, users = catalogue.predictions("next/scores"), catalogue.predictions("next/user_vector")
    assert users.shape == (8, 5) and (users[:, 4] == 1).all()  # The last number is for the bias.
    assert (users[3, :4] == 0).all() and np.ptp(scores[3]) > 0  # Without a history.
    transform(catalogue, tmp_path, "item_vectors")
    vectors = np.load(tmp_path / "out" / "vectors.npy")
    assert vectors.dtype == np.float32 and vectors.shape == (30, 5)
    assert (tmp_path / "out" / "items.txt").read_text().splitlines() == WORDS
    np.testing.assert_allclose(users @ vectors.T, scores, atol=1e-5)
    table = catalogue.estimator.get_variable_value("items/item/vectors")
    np.testing.assert_array_equal(vectors[:, :4], table[:30])

    transform(catalogue, tmp_path / "table", "item_vectors_parquet")
    (file,) = (tmp_path / "table" / "out").iterdir()
    stored = pq.read_table(file).to_pydict()
    assert stored["item"] == WORDS
    np.testing.assert_array_equal(np.float32(stored["vector"]), vectors)


def test_the_signatures_for_an_index(catalogue):
    model = exports.load(catalogue.export)
    found = model.run("item_vectors/next", {"ids": np.array([29, 0])}, ["items", "vectors"])
    assert found["items"].tolist() == [b"w29", b"w0"]
    for bad in (30, -1):
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected 0 to 29"):
            model.run("item_vectors/next", {"ids": np.array([bad])}, ["vectors"])
    records = [writing.example(row).SerializeToString() for row in catalogue.rows]
    users = item_vectors.of_users(
        model, item_vectors.Source("", "user_vector/next", "next"), records
    )
    model.close()
    np.testing.assert_allclose(users, catalogue.predictions("next/user_vector"), atol=1e-6)


def test_an_export_has_the_coverage_and_lift_of_its_checkpoint(catalogue):
    before = catalogue.estimator.evaluate(batch_of(catalogue.spec, catalogue.rows), steps=1)
    config = ek.ExperimentConfig(
        mode="evaluate", export_dir=catalogue.export, eval_files=(catalogue.path,),
        eval_batch_size=3,
    )  # fmt: skip
    after = ek.run(config).metrics
    for name in ("coverage_at_3/next", "popularity_lift_at_3/next", "recall_at_3/next"):
        assert after[name] == pytest.approx(before[name], rel=1e-6), name
    assert 3 / 30 <= after["coverage_at_3/next"] <= 1


def test_an_index_of_few_items_is_exact(catalogue, tmp_path):
    faiss = pytest.importorskip("faiss")
    transform(catalogue, tmp_path, "item_index", index_recall=1.0)
    index = faiss.read_index(f"{tmp_path}/out/index.faiss")
    users, scores = catalogue.predictions("next/user_vector"), catalogue.predictions("next/scores")
    found, ids = index.search(users.astype("f"), 4)
    np.testing.assert_array_equal(ids, np.argsort(-scores, axis=1, kind="stable")[:, :4])
    np.testing.assert_allclose(found, -np.sort(-scores, axis=1)[:, :4], atol=1e-5)
    assert (tmp_path / "out" / "items.txt").read_text().splitlines() == WORDS
    written = json.loads((tmp_path / "out" / "index.json").read_text())
    expected = {
        "export": catalogue.export, "user_vector": "user_vector/next", "items": 30, "dimension": 5,
        "index": "flat", "measure": "inner_product", "ef_search": None, "recall_at_10": 1.0,
        "queries": 8, "faiss": faiss.__version__,
    }  # fmt: skip
    assert {name: written[name] for name in expected} == expected
    assert written["speed_up"] == written["brute_force_milliseconds"] / written["milliseconds"] > 0


def test_a_graph_finds_most_of_the_best_items():
    pytest.importorskip("faiss")
    rng = np.random.default_rng(1)
    vectors, users = rng.normal(size=(3000, 16)).astype("f"), rng.normal(size=(50, 16)).astype("f")
    users[:, 15] = 1  # The last number of an item is its bias.
    index = item_index.build(vectors, exact=100)
    found = item_index.tuned(index, vectors, users, recall=0.9)
    assert found.ef == index.hnsw.efSearch and found.queries == 50
    scores, ids = index.search(users, 10)
    products = users @ vectors.T
    bounds = rounding.of_product(users, vectors.T)
    rounding.assert_within(scores, *(np.take_along_axis(x, ids, 1) for x in (products, bounds)))
    best = np.argsort(-products, axis=1)[:, :10]
    by_hand = np.mean([len({*row} & {*others}) / 10 for row, others in zip(ids, best)])
    assert found.recall == pytest.approx(by_hand) and found.recall >= 0.9


def test_which_of_equal_items_is_found_does_not_matter():
    vectors, users = np.float32([[1, 0], [1, 0], [1, 0], [0, 1]]), np.float32([[2, 1]])
    for ids, expected in (([0, 1], 1), ([2, 1], 1), ([2, 3], 0.5), ([2, -1], 0.5)):
        found = item_index.share_found(np.array([ids]), vectors, users, np.float32([[2, 2]]))
        assert found == expected


def test_an_index_that_finds_too_few_items_is_refused(catalogue, tmp_path, monkeypatch):
    pytest.importorskip("faiss")
    monkeypatch.setattr(item_index, "share_found", lambda *_: 0.94)
    assert refused(ExportError, catalogue, tmp_path, "item_index") == (
        "the result of --transform=item_index was refused: its recall@10 is 0.9400 on 8 rows of "
        "--predict_files, expected at least --index_recall=0.95. Accept a lower recall, or use the "
        "signature top_k of the export, which compares all items."
    )


def test_items_of_records_need_only_the_features_of_items(towers, tmp_path):
    expected = towers.predictions("item_vector")
    path = f"{tmp_path}/items.tfrecord"
    first, *others = [{"user": row["user"], "city": row["city"]} for row in towers.rows]
    writing.write_examples(path, [{**first, "city": "other"}, *others, first])
    transform(towers, tmp_path, "item_vectors", predict_files=(path,), keep_columns=("user",))
    vectors = np.load(tmp_path / "out" / "vectors.npy")
    names = (tmp_path / "out" / "items.txt").read_text().splitlines()
    assert names == list(dict.fromkeys(row["user"] for row in towers.rows))  # Each once.
    for name, vector in zip(names, vectors):
        last = max(i for i, row in enumerate([*towers.rows, first]) if row["user"] == name)
        np.testing.assert_allclose(vector, expected[last % len(towers.rows)], atol=1e-6)


def test_names_of_json_lines_have_all_digits():
    """A fraction in the same block of lines would make floats of them."""
    records, examples = np.array([b"", b""], object), [None, None]
    kept = pa.array(["9007199254740993", '"\\u00e4 7"'])
    part = Part("a.jsonl", "JSON lines", 0, ())
    batch = Batch(records, [kept], part.path, 0, part)
    assert item_rows._names(batch, examples, "id") == [b"9007199254740993", "\u00e4 7".encode()]
    for text in ("0.5", "null", "[1]", "Inf", None):
        batch = Batch(records, [pa.array(["1", text], pa.string())], part.path, 4, part)
        with pytest.raises(ek.DataError, match=r"^a\.jsonl: row 6: expected one string or int64"):
            item_rows._names(batch, examples, "id")


@pytest.mark.ci
def test_a_client_asks_for_users_without_items(towers):
    expected, rows = towers.predictions("user_vector"), Rows.of_export(towers.export)
    users = [{name: row[name] for name in ("price", "tags")} for row in towers.rows]
    with (
        serving(pathlib.Path(towers.export).parent) as (address, url, _),
        GrpcClient(address, "ads", rows=rows, batch_rows=8) as first,
        RestClient(url, "ads", rows=rows, batch_rows=8) as second,
    ):
        for client in (first, second):
            found = client.predict(users, signature="user_vector")
            np.testing.assert_allclose(found["user_vector"], expected, atol=1e-6)
            with pytest.raises(RowError, match="row 0: the required feature 'price' is missing"):
                client.predict([{"tags": []}], signature="user_vector")
            with pytest.raises(RowError, match="row 0: the required feature 'user' is missing"):
                client.predict(users)
            records = [writing.example({"tags": ["a"]}).SerializeToString()]
            with pytest.raises(ServingError, match=r"Feature: price .* is required but could not"):
                client.predict(records, signature="user_vector")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_items_of_a_table(towers, tmp_path, ending):
    table = pa.table({"user": ["bob", "ann", None], "city": ["rome", "oslo", "rome"]})
    path = f"{tmp_path}/items.{ending}"
    (pc.write_csv if ending == "csv" else pq.write_table)(table.slice(0, 2), path)
    fields = {"predict_files": (path,), "keep_columns": ("user",)}
    transform(towers, tmp_path, "item_vectors", **fields)
    vectors = np.load(tmp_path / "out" / "vectors.npy")
    assert (tmp_path / "out" / "items.txt").read_text() == "bob\nann\n"
    expected = {
        (row["user"], row["city"]): vector
        for row, vector in zip(towers.rows, towers.predictions("item_vector"))
    }
    np.testing.assert_allclose(vectors[0], expected["bob", "rome"], atol=1e-6)
    np.testing.assert_allclose(vectors[1], expected["ann", "oslo"], atol=1e-6)
    if ending == "parquet":
        pq.write_table(table, path)
        text = refused(ek.DataError, towers, tmp_path / "bad", "item_vectors", **fields)
        assert text.startswith(f"{path}: row 3: ")
        fields["keep_columns"] = ("price",)
        text = refused(ek.ConfigError, towers, tmp_path / "bad", "item_vectors", **fields)
        assert text.startswith(f"--keep_columns: {path} has no column 'price'")


def test_an_index_of_the_items_of_records(towers, tmp_path):
    faiss = pytest.importorskip("faiss")
    path = f"{tmp_path}/items.tfrecord"
    rows = [{"user": row["user"], "city": row["city"]} for row in towers.rows]
    writing.write_examples(path, rows)
    fields = {"predict_files": (path,), "keep_columns": ("user",)}
    text = refused(ek.DataError, towers, tmp_path, "item_index", **fields)
    assert text.startswith(f"{path}: {place(path, 0)}: feature 'price' is missing")
    transform(towers, tmp_path, "item_index", eval_files=(towers.path,), **fields)
    index = faiss.read_index(f"{tmp_path}/out/index.faiss")
    names = (tmp_path / "out" / "items.txt").read_text().splitlines()
    items = dict(zip((row["user"] for row in rows), towers.predictions("item_vector")))
    users = towers.predictions("user_vector")
    best = np.argsort(-(users @ np.stack([items[name] for name in names]).T), axis=1)
    np.testing.assert_array_equal(index.search(users, 1)[1][:, 0], best[:, 0])


def test_what_the_items_of_records_lack_is_named(towers, tmp_path):
    path = f"{tmp_path}/items.tfrecord"
    fields = {"predict_files": (path,), "keep_columns": ("user",)}
    writing.write_examples(path, [{"user": "a", "city": "rome"}, {"city": "rome"}])
    assert refused(ek.DataError, towers, tmp_path, "item_vectors", **fields) == (
        f"{path}: record 1: expected one string or int64 in 'user' of --keep_columns, which names "
        "the item, got none. Correct the row."
    )
    writing.write_examples(path, [{"user": "a", "city": "rome"}, {"user": "b"}])
    text = refused(ek.DataError, towers, tmp_path, "item_vectors", **fields)
    assert text.startswith(f"{path}: {place(path, 1)}: feature 'city' is missing")
    text = refused(ek.ConfigError, towers, tmp_path, "item_vectors")
    assert text.startswith(
        "--keep_columns: expected the feature that names an item, such as item_id"
    )
    text = refused(ek.ConfigError, towers, tmp_path, "item_vectors", keep_columns=("usr",))
    assert text.startswith("--keep_columns: the spec of the export has no feature 'usr'")


def test_exports_and_flags_that_do_not_go_together(catalogue, tmp_path, monkeypatch):
    text = refused(ek.ConfigError, catalogue, tmp_path, "item_vectors", keep_columns=("item",))
    assert text == (
        f"--keep_columns=item: the items of {catalogue.export} are the catalogue of the objective "
        "'next', which has names. Remove the flag."
    )
    text = refused(ExportError, catalogue, tmp_path, "item_vectors", transform_tolerance=1e-12)
    assert "(--transform_tolerance)" in text
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert refused(ek.ConfigError, catalogue, tmp_path, "item_index") == (
        "--transform=item_index needs the package faiss-cpu (import of faiss halted; None in "
        "sys.modules). Install it with `pip install 'estimator-kit[index]'`."
    )


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"transform": "freeze", "keep_columns": ("a",)},
         "--keep_columns is only for --transform=item_vectors and item_index. Remove it."),
        ({"transform": "item_vectors", "eval_files": ("e",)},
         "--eval_files is not for --transform=item_vectors. Remove it."),
        ({"transform": "item_index", "index_recall": 1.5}, "index_recall"),
    ],
)  # fmt: skip
def test_flags_of_other_forms(fields, problem):
    with pytest.raises(ek.ConfigError) as error:
        ek.ExperimentConfig(
            mode="transform", export_dir="e", transform_dir="d", predict_files=("p",), **fields
        )
    assert problem in str(error.value)


def test_a_model_without_vectors():
    meta = tf.compat.v1.MetaGraphDef()
    meta.signature_def["predict_examples"].method_name = "m"
    with pytest.raises(ek.ConfigError) as error:
        item_vectors.find("x", meta)
    assert str(error.value) == (
        "--export_dir=x has no vectors of items: expected a signature item_vectors/<objective>, or "
        "user_vector and item_vector, got predict_examples. Use the model sasrec, gru4rec, "
        "two_tower or one that returns ek.StepScores, and export it again."
    )
