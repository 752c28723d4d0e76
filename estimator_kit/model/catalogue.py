"""The catalogue of a retrieval model: the items that an evaluation ranks for each row.

    catalogue = catalogue.read(spec, columns, train_files, eval_files)
    model.catalogue = catalogue       # before the graph of an evaluation is built

The training and the evaluation files have the items: each id of the column `item_id`, with the
features of the first row that has it. Words outside of the vocabulary are not items: rows that took
one count as misses, and `unknown_item_share` says how many there are. The rows of the training
files also tell which items each user has taken.

Training and `evaluate` use the same items: a training stores them as `catalogue.npz`.
`catalogue_ranks` ranks them. Nothing here builds a graph.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.errors import ConfigError
from feature_specs.files import file_systems, staged
from feature_specs.spec import FeatureSpec
from input_pipelines import input_fns
from input_pipelines.record_files import tfrecords
from input_pipelines.transform.transforms import Features, weights_of

FILE = "catalogue.npz"

# How many rows of files are read, and how many items get their vectors, at once.
_ROWS = 4096

Arrays = dict[str, "np.ndarray[Any, Any]"]


class Columns(NamedTuple):
    """What a model reads of items.

    Attributes:
      item_id: the categorical column with the id of an item.
      item: the columns from which the vector of an item is made.
      user_id: the categorical column with the id of a user, whose items are left out, or None.
      labels: the labels that say whether a row took its item.
    """

    item_id: str
    item: tuple[str, ...]
    user_id: Optional[str]
    labels: tuple[str, ...]

    def keys(self, spec: FeatureSpec) -> list[str]:
        """The keys of `Features` that the vector of an item may need."""
        names = dict.fromkeys([self.item_id, *(spec.category_of(name)[0] for name in self.item)])
        return [key for name in names for key in (name, weights_of(name))]


@dataclasses.dataclass(frozen=True)
class Catalogue:
    """The items, in the order in which they are found.

    Attributes:
      place: int64 [ids], the place of each id of the column among the items; -1 if no row has it.
      batches: the features of the items, in batches: the arrays of each feature, by
        `<key>/<number>`. A ragged feature has several arrays.
      splits: int64 [users + 2]: the user u has taken `taken[splits[u]:splits[u + 1]]`. The last
        user stands for all unknown ones, and has taken nothing.
      taken: int64 [n], places of items.
    """

    place: np.ndarray
    batches: Sequence[Arrays]
    splits: np.ndarray
    taken: np.ndarray

    @property
    def size(self) -> int:
        """The number of items."""
        return int(self.place.max(initial=-1)) + 1

    @property
    def digest(self) -> str:
        """16 hex digits of the items and of what users took, for `ScoresMeaning`."""
        digest = hashlib.sha256()
        for name, array in sorted(self._arrays().items()):
            digest.update(f"{name} {array.dtype} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()[:16]

    def save(self, model_dir: str) -> None:
        """Writes `catalogue.npz`."""
        content = io.BytesIO()
        np.savez_compressed(content, **self._arrays())  # type: ignore[arg-type]
        staged.write(os.path.join(model_dir, FILE), content.getvalue())

    def _arrays(self) -> Arrays:
        arrays = {"place": self.place, "splits": self.splits, "taken": self.taken}
        for number, batch in enumerate(self.batches):
            arrays.update({f"batch {number} {name}": array for name, array in batch.items()})
        return arrays


def load(model_dir: str, spec: FeatureSpec, columns: Columns) -> Optional[Catalogue]:
    """The catalogue that a training stored; None without a file.

    Raises:
      ConfigError: the file is damaged, or was stored for other columns.
    """
    path = os.path.join(model_dir, FILE)
    if not file_systems.exists(path):
        return None
    try:
        with file_systems.open_file(path, "rb") as opened:
            stored = dict(np.load(io.BytesIO(opened.read()), allow_pickle=False))
        parts = {name: stored.pop(name) for name in ("place", "splits", "taken")}
        batches: dict[int, Arrays] = {}
        for name, array in stored.items():
            _, number, key = name.split(" ", 2)
            batches.setdefault(int(number), {})[key] = array
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(
            f"{path}: it cannot be read ({error}). Remove it to evaluate without metrics of the "
            "catalogue, or train again."
        ) from error
    user_id = columns.user_id
    if user_id is not None and parts["splits"].shape != (spec.named_ids(user_id) + 2,):
        raise ConfigError(
            f"{path}: it was stored with another user_id. Train with --model_params=user_id=..., "
            "or evaluate with the value of the training."
        )
    return Catalogue(batches=[batches[number] for number in sorted(batches)], **parts)


def read(
    spec: FeatureSpec,
    columns: Columns,
    train_files: Sequence[str],
    eval_files: Sequence[str],
    *,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
) -> Catalogue:
    """Reads the items of files, once, and the items that each user has taken in the training.

    Raises:
      tf.errors.OpError: a record cannot be read.
    """
    part = _part(spec, columns)
    place = np.full(spec.named_ids(columns.item_id), -1, np.int64)
    users = spec.named_ids(columns.user_id) if columns.user_id is not None else 0
    items: list[Features] = []
    pairs: list[np.ndarray] = [np.zeros([0], np.int64)]
    for files, is_history in ((train_files, True), (eval_files, False)):
        if not files:
            continue
        rows = input_fns.eval_input_fn(part, files, batch_size=_ROWS, damaged=damaged)()
        for features, labels in rows:
            ids = features[columns.item_id].numpy()
            new = _first_rows(ids, place)
            if new.size:
                place[ids[new]] = np.arange(new.size) + place.max() + 1
                items.append(
                    {
                        key: tf.gather(features[key], new)
                        for key in columns.keys(spec)
                        if key in features
                    }
                )
            if is_history and columns.user_id is not None:
                of_user = features[columns.user_id].numpy()
                taken = (of_user >= 0) & (of_user < users) & (ids >= 0) & (ids < place.size)
                taken &= _took(labels, columns.labels)
                pairs.append(np.unique(of_user[taken] * place.size + place[ids[taken]]))
    if not items:
        raise ConfigError(
            f"no row of the training and evaluation files has an id of the column "
            f"{columns.item_id!r} (model parameter item_id), so nothing can be ranked. Check "
            "its vocabulary."
        )
    together = {key: tf.concat([each[key] for each in items], axis=0) for key in items[0]}
    count = int(place.max()) + 1
    batches = [
        {
            f"{key}/{number}": array.numpy()
            for key, value in together.items()
            for number, array in enumerate(
                tf.nest.flatten(value[start : start + _ROWS], expand_composites=True)
            )
        }
        for start in range(0, count, _ROWS)
    ]
    all_pairs = np.unique(np.concatenate(pairs))
    lengths = np.bincount(all_pairs // place.size, minlength=users + 1)
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Catalogue(place, batches, splits, all_pairs % place.size)


def _part(spec: FeatureSpec, columns: Columns) -> FeatureSpec:
    """The spec with only the columns that are read here, and their features."""
    names = (*columns.item, columns.item_id, *([columns.user_id] if columns.user_id else []))
    features = {feature for name in names for feature in spec.features_of(name)}
    kept = {n: c for n, c in spec.columns.items() if set(spec.features_of(n)) <= features}
    group = tuple(dict.fromkeys(names))
    return dataclasses.replace(spec, columns=kept, groups={"items": group}, raw=())


def _first_rows(ids: np.ndarray, place: np.ndarray) -> np.ndarray:
    """The first row of each id that has no place yet, in their order."""
    inside = np.flatnonzero((ids >= 0) & (ids < place.size))
    new = inside[place[ids[inside]] < 0]
    _, first = np.unique(ids[new], return_index=True)
    rows: np.ndarray = new[np.sort(first)]
    return rows


def _took(labels: Mapping[str, tf.Tensor], names: Sequence[str]) -> np.ndarray:
    """Whether each row has a label above 0 and a weight: bool [rows]."""
    rewards = []
    for name in names:
        weight = labels.get(f"{name}/weight", tf.constant(1.0))
        rewards.append(tf.cast(labels[name], tf.float32) * weight > 0)
    took: np.ndarray = tf.reduce_any(tf.stack(rewards), axis=0).numpy()
    return took
