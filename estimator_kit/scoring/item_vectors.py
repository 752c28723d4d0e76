"""The vectors of users and items of an export, whose largest products are the best items.

    source = find(export_dir, meta, spec)             # which signatures have them
    items = of_catalogue(model, source, spec)         # the head next_item: all items
    items = of_rows(model, meta, spec, paths, "item_id")        # two_tower: the items of rows
    users = of_users(model, source, records)

A model has them in one of two ways:

- It returns `StepScores` for the head `next_item`. Then the export knows its catalogue, and answers
  `item_vectors/<objective>` and `user_vector/<objective>`.
- It adds the outputs `item_vector` and `user_vector`, as `two_tower` does. Then an item is what its
  features say, so its vector comes from a row (`item_rows`).

Never writes into an export.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np

from estimator_kit.errors import ConfigError, ExportError
from estimator_kit.exporters.saved_model_graph import features_of_signatures
from estimator_kit.model.heads.top_items import IDS
from estimator_kit.scoring import export as exports
from estimator_kit.scoring import item_rows
from estimator_kit.serving.loaded_model import LoadedModel
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.transform.serving_inputs import EXAMPLES

USER, ITEM = "user_vector", "item_vector"
_CATALOGUE = "item_vectors/"

# Items of a request, and records.
_IDS_OF_A_REQUEST = 2**16
_BATCH = 1024

# Scores that a check computes.
_CHECKED = 2**26


class Items(NamedTuple):
    """Items and their vectors.

    Attributes:
      names: the words or ids of the items, as bytes.
      vectors: float32 [items, n].
    """

    names: list[bytes]
    vectors: np.ndarray


@dataclasses.dataclass(frozen=True)
class Source:
    """Where an export has its vectors.

    Attributes:
      path: the folder of the export.
      user: the signature of the vectors of users.
      objective: the objective whose catalogue the export knows; None if records describe items.
    """

    path: str
    user: str
    objective: Optional[str]


def find(path: str, meta: Any) -> Source:
    """Where the export has its vectors.

    Raises:
      ConfigError: it has none, or several.
    """
    signatures = sorted(name for name in meta.signature_def if name.startswith(_CATALOGUE))
    if len(signatures) > 1:
        raise ConfigError(
            f"--export_dir={path}: expected one signature {_CATALOGUE}<objective>, got "
            f"{', '.join(signatures)}. Export a model with one objective of the head next_item."
        )
    if signatures:
        objective = signatures[0][len(_CATALOGUE) :]
        return Source(path, f"{USER}/{objective}", objective)
    if {USER, ITEM} <= set(meta.signature_def):
        return Source(path, USER, None)
    raise ConfigError(
        f"--export_dir={path} has no vectors of items: expected a signature {_CATALOGUE}<objective>"
        f", or {USER} and {ITEM}, got {', '.join(sorted(meta.signature_def))}. Use the model "
        "sasrec, gru4rec, two_tower or one that returns ek.StepScores, and export it again."
    )


def of_catalogue(model: LoadedModel, source: Source, spec: FeatureSpec) -> Items:
    """All items of the head `next_item`, in the order of their ids."""
    assert source.objective is not None
    count = spec.named_ids(str(spec.objectives[source.objective].items_column))
    names: list[bytes] = []
    vectors = []
    for start in range(0, count, _IDS_OF_A_REQUEST):
        ids = np.arange(start, min(start + _IDS_OF_A_REQUEST, count), dtype=np.int64)
        answer = model.run(_CATALOGUE + source.objective, {IDS: ids}, ["items", "vectors"])
        names += answer["items"].tolist()
        vectors.append(answer["vectors"])
    return _checked(Items(names, np.concatenate(vectors)), source.path)


def of_rows(
    model: LoadedModel, meta: Any, spec: FeatureSpec, paths: Sequence[str], name: str
) -> Items:
    """The items that rows describe, in the order in which they first occur.

    If several rows describe an item, the last one counts.

    Args:
      model, meta: the export and its graph.
      spec: its feature spec.
      paths: TFRecord files or tables; see `item_rows`.
      name: the feature that names an item.
    """
    needed = features_of_signatures(meta, spec)[ITEM]
    vectors_by_name: dict[bytes, np.ndarray] = {}
    with item_rows.bad_rows_named(spec, paths, needed):
        for names, records in item_rows.batches(spec, paths, name, needed, _BATCH):
            vectors = exports.ask(model, ITEM, EXAMPLES, records, [ITEM])[ITEM]
            vectors_by_name.update(zip(names, vectors))
    if not vectors_by_name:
        raise DataError(f"--predict_files: no rows in {paths[0]}. Name files with items.")
    return _checked(
        Items(list(vectors_by_name), np.stack(list(vectors_by_name.values()))), model.path
    )


def of_users(model: LoadedModel, source: Source, records: Sequence[bytes]) -> np.ndarray:
    """The vectors of the users of records: float32 [records, n]."""
    vectors = [
        exports.ask(model, source.user, EXAMPLES, part, [USER])[USER] for part in _parts(records)
    ]
    return np.concatenate(vectors)


def check_scores(
    model: LoadedModel, source: Source, items: Items, records: Sequence[bytes], tolerance: float
) -> tuple[int, float]:
    """Compares products of vectors with the scores of the export.

    The difference is relative to the product of the lengths of both vectors, if this is above 1.

    Returns:
      How many records were compared, and the largest difference.

    Raises:
      ExportError: they differ by more than the tolerance.
    """
    records = records[: max(1, _CHECKED // len(items.names))]
    largest = 0.0
    lengths = np.linalg.norm(items.vectors, axis=1)
    size = max(1, _CHECKED // 8 // len(items.names))
    for part in _parts(records, min(size, _BATCH)):
        signature = f"predict/{source.objective}"
        answer = exports.ask(model, signature, EXAMPLES, part, ["scores", USER])
        products = answer[USER] @ items.vectors.T
        scale = np.linalg.norm(answer[USER], axis=1)[:, np.newaxis] * lengths
        difference = np.abs(products - answer["scores"]) / np.maximum(scale, 1.0)
        largest = max(largest, float(difference.max()))
    if not largest <= tolerance:
        raise ExportError(
            f"the result of --mode=transform was refused: products of vectors and scores of "
            f"{source.path} differ by {largest:.2g}, expected at most {tolerance:g} "
            "(--transform_tolerance). Check that `logits` returns the same StepScores in each mode."
        )
    return len(records), largest


def _parts(records: Sequence[bytes], size: int = _BATCH) -> Iterator[np.ndarray]:
    for start in range(0, len(records), size):
        yield np.array(records[start : start + size], object)


def _checked(items: Items, path: str) -> Items:
    bad = np.flatnonzero(~np.isfinite(items.vectors).all(axis=1))
    if bad.size:
        name = items.names[bad[0]].decode("utf-8", "replace")
        raise ExportError(
            f"--export_dir={path}: the vector of the item {name!r} is not finite. Train again with "
            "a smaller learning rate."
        )
    return items
