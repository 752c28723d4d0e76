"""`--mode=transform` to the vectors of items, or to an index over them.

    item_vectors   vectors.npy, float32 [items, n], and items.txt, the word or id of each row; or,
                   with item_vectors_parquet, vectors.parquet with `item` and `vector`
    item_index     index.faiss, items.txt, and index.json: the recall and the speed of the index

The product of an item's vector and the `user_vector` of a row is the score of the item
(`item_vectors`). Line i of items.txt, from 0, names the item with the id i of the index.

Vectors of the head `next_item` are compared with its scores. An index that finds too few of the
best items is refused. If anything is refused, nothing is left of the result.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.prediction import Prediction
from estimator_kit.config.areas.transforming import Transforming
from estimator_kit.config.modes import Transform
from estimator_kit.errors import ConfigError, ExportError
from estimator_kit.exporters.comparison import ROWS, kept_spec, sample, spec_path
from estimator_kit.exporters.saved_model_graph import read_saved_model, serving_graph
from estimator_kit.scoring import export as exports
from estimator_kit.scoring import item_index, item_rows, item_vectors
from estimator_kit.scoring.item_index import Measured
from estimator_kit.scoring.item_vectors import Items, Source
from estimator_kit.serving.loaded_model import LoadedModel
from feature_specs.files import documents, staged
from feature_specs.spec import FeatureSpec
from input_pipelines.prepare.tables.library import arrow
from input_pipelines.reading import files

KINDS = ("item_vectors", "item_vectors_parquet", "item_index")


def write(command: Transform) -> str:
    """Writes `transform_dir` from `export_dir`; returns the text for the user.

    Raises:
      ConfigError: the export has no vectors, or a package is missing.
      DataError: a record cannot be read; the message names it.
      ExportError: products of vectors are not the scores, or the index finds too few items;
        nothing is left of the result.
    """
    if command.transforming.transform == "item_index":
        item_index.library()  # Before the export is read.
    path, target = (
        exports.newest(str(command.export.export_dir)),
        str(command.transforming.transform_dir),
    )
    meta = serving_graph(read_saved_model(path), path)
    source, spec = item_vectors.find(path, meta), kept_spec(path)
    if spec is None:
        raise ConfigError(
            f"--export_dir={path} has no {spec_path(path)}, which says what the items are. Use an "
            "export of estimator_kit."
        )
    with contextlib.closing(exports.load(path)) as model, staged.folder(target) as folder:
        items, lines = _items(
            command.data, command.prediction, command.transforming, model, meta, source, spec
        )
        if command.transforming.transform == "item_index":
            lines += _write_index(
                command.data, command.transforming, model, source, spec, items, folder
            )
        else:
            _write_vectors(command.transforming, items, folder)
    count, n = items.vectors.shape
    first = (
        f"{command.transforming.transform}: {target}, {count:,} items with vectors of {n} numbers"
    )
    return "\n".join([first, *(f"  {line}" for line in lines)])


def _items(
    data: Data,
    prediction: Prediction,
    transforming: Transforming,
    model: LoadedModel,
    meta: Any,
    source: Source,
    spec: FeatureSpec,
) -> tuple[Items, list[str]]:
    """The items, and lines about them for the user."""
    if source.objective is None:
        name = item_rows.check_name(spec, prediction.keep_columns)
        paths = files.expand(data.predict_files, flag="--predict_files")
        items = item_vectors.of_rows(model, meta, spec, paths, name)
        return items, [f"the items of {len(paths):,} files, by {name}"]
    if prediction.keep_columns:
        raise ConfigError(
            f"--keep_columns={','.join(prediction.keep_columns)}: the items of {source.path} are "
            f"the catalogue of the objective {source.objective!r}, which has names. Remove the "
            "flag."
        )
    records = sample(data, spec, "predict_files", ROWS).records
    items = item_vectors.of_catalogue(model, source, spec)
    rows, largest = item_vectors.check_scores(model, source, items, records, transforming.tolerance)
    return items, [f"largest difference of products and scores on {rows:,} rows: {largest:.2g}"]


def _write_vectors(transforming: Transforming, items: Items, folder: str) -> None:
    if transforming.transform == "item_vectors_parquet":
        pa, parquet = arrow(), arrow("parquet")
        flat = pa.array(items.vectors.reshape(-1))
        vectors = pa.FixedSizeListArray.from_arrays(flat, items.vectors.shape[1])
        table = pa.table({"item": pa.array(_texts(items)), "vector": vectors})
        content = pa.BufferOutputStream()
        parquet.write_table(table, content)
        with tf.io.gfile.GFile(os.path.join(folder, "vectors.parquet"), "wb") as file:
            file.write(content.getvalue().to_pybytes())
        return
    with tf.io.gfile.GFile(os.path.join(folder, "vectors.npy"), "wb") as file:
        np.lib.format.write_array(file, items.vectors, allow_pickle=False)
    _write_names(items, folder)


def _write_names(items: Items, folder: str) -> None:
    for name in items.names:
        if b"\n" in name or b"\r" in name:
            raise ConfigError(
                f"items.txt has one item on each line, and the item {name!r} has a line break. Use "
                "--transform=item_vectors_parquet."
            )
    with tf.io.gfile.GFile(os.path.join(folder, "items.txt"), "wb") as file:
        file.write(b"".join(name + b"\n" for name in items.names))


def _texts(items: Items) -> list[str]:
    try:
        return [name.decode() for name in items.names]
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"--transform=item_vectors_parquet needs items in UTF-8, got {error.object!r}. Use "
            "--transform=item_vectors."
        ) from error


def _write_index(
    data: Data,
    transforming: Transforming,
    model: LoadedModel,
    source: Source,
    spec: FeatureSpec,
    items: Items,
    folder: str,
) -> list[str]:
    """Writes the files of the index; returns lines for the user."""
    field = "eval_files" if data.eval_files else "predict_files"
    users = item_vectors.of_users(model, source, sample(data, spec, field, ROWS).records)
    queries = users[users.any(axis=1)]  # For a user of zeros, all scores are equal.
    if not len(queries):
        raise ExportError(
            f"--{field}: the vectors of all users are 0, so nothing measures the index. Name files "
            "with users who have a history."
        )
    index = item_index.build(items.vectors)
    measured = item_index.tuned(index, items.vectors, queries, recall=transforming.index_recall)
    if measured.recall < transforming.index_recall:
        raise ExportError(
            f"the result of --transform=item_index was refused: its recall@{item_index.K} is "
            f"{measured.recall:.4f} on {measured.queries:,} rows of --{field}, expected at least "
            f"--index_recall={transforming.index_recall:g}. Accept a lower recall, or use the "
            "signature top_k of the export, which compares all items."
        )
    faiss = item_index.library()
    with tf.io.gfile.GFile(os.path.join(folder, "index.faiss"), "wb") as file:
        file.write(faiss.serialize_index(index).tobytes())
    _write_names(items, folder)
    document = _document(source, items, measured)
    documents.write_json(os.path.join(folder, "index.json"), document)
    kind = f"HNSW graph, efSearch {measured.ef}" if measured.ef else "all items are compared"
    return [
        f"{kind}: recall@{item_index.K} {measured.recall:.4f} on {measured.queries:,} rows of "
        f"--{field}",
        f"{measured.milliseconds:.3f} ms for a query, and "
        f"{measured.brute_force_milliseconds:.3f} ms by brute force: {measured.speed_up:.1f} times "
        "as fast",
    ]


def _document(source: Source, items: Items, measured: Measured) -> dict[str, Any]:
    count, n = items.vectors.shape
    return {
        "export": source.path,
        "user_vector": source.user,
        "items": count,
        "dimension": n,
        "index": "hnsw" if measured.ef else "flat",
        "measure": "inner_product",
        "ef_search": measured.ef or None,
        f"recall_at_{item_index.K}": measured.recall,
        "queries": measured.queries,
        "milliseconds": measured.milliseconds,
        "brute_force_milliseconds": measured.brute_force_milliseconds,
        "speed_up": measured.speed_up,
        "faiss": item_index.library().__version__,
    }
