"""What a spec and a model make of a few rows, by aspect, without a training.

`Observed` follows the way of the rows; see `feature_specs.meaning`. Each variable is filled
from a hash of its name, and each random op is seeded by its name. So only what counts can differ.
"""

from __future__ import annotations

import contextlib
import functools
import json
import pathlib
import zlib
from collections.abc import Iterator
from typing import Any, Optional

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import random_seed

import estimator_kit as ek
import feature_specs
from estimator_kit.models import MODELS
from input_pipelines import input_fns
from input_pipelines.prepare.convert.conversion import convert
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform

# The aspects that can be observed, in the order of a record's way. A difference may follow from one
# in an aspect to its left. `training` and `scores` follow from all others, and not from each other.
WAY = ("records", "rows", "values", "weights", "outputs")
ENDS = ("training", "scores")


# What `Observed.rows` has read: a reader takes a second to start.
_READ: dict[str, list[int]] = {}


class Reads(ek.ModelFn):
    """Reads whatever groups a spec has, of all kinds of columns."""

    class Params(ek.ModelFn.Params):
        learning_rate: float = 0.3

    def logits(self, features, mode):
        groups, parts = self.spec.groups, []
        if "deep" in groups:
            parts.append(self.dense_input(features, "deep"))
        if "steps" in groups:
            parts.append(tf.reduce_sum(self.sequence_input(features, "steps")[0], axis=1))
        if "lists" in groups:
            for values in self.ragged_input(features, "lists").values():
                values = values.merge_dims(1, -1) if values.ragged_rank > 1 else values
                sums = tf.reduce_sum(tf.cast(values, tf.float32), axis=1)
                parts.append(sums[:, tf.newaxis])
        logits = 0.0
        if parts:
            inputs = tf.concat(parts, axis=1)
            logits += ek.dense_layer(inputs, self.logits_dimension, "logits")
        if "wide" in groups:
            logits += self.linear_logits(features, "wide")
        return logits


class Observed:
    """What a document makes of rows; each aspect is computed when it is asked for, and kept.

    Args:
      document: of the spec.
      table: the rows, as dicts, of which a conversion makes records; or the bytes of a CSV file; or
        records, a list of bytes.
      folder: a folder for files, which also has the files that the spec names.
      model: the name of a built-in model, or None for `Reads`.
      params: of the model.

    Attributes:
      seed: of its graphs.
    """

    seed = 1

    def __init__(
        self,
        document: dict[str, Any],
        table: Any,
        folder: pathlib.Path,
        model: Optional[str] = None,
        params: Optional[dict[str, Any]] = None,
    ):
        self.document = document
        self.spec = feature_specs.parse(document, directory=folder)
        self._table, self._folder = table, folder
        self._params = params
        self._make = Reads if model is None else MODELS[model]

    @functools.cached_property
    def model(self) -> ek.ModelFn:
        model = self._make(self.spec, self._params)
        model.last_step = 100
        return model

    @functools.cached_property
    def records(self) -> list[bytes]:
        """The bytes of each record that a conversion makes."""
        if isinstance(self._table, list) and isinstance(self._table[0], bytes):
            return self._table
        made = self._folder / "converted"
        number = len(list(made.iterdir())) if made.exists() else 0
        place = made / str(number)
        place.mkdir(parents=True)
        given = {k.removeprefix("csv_"): v for k, v in self.spec.tables.given.items()}
        if isinstance(self._table, bytes):
            path = place / "rows.csv"
            path.write_bytes(self._table)
        else:
            path = place / "rows.jsonl"
            path.write_text("".join(json.dumps(row) + "\n" for row in self._table))
        convert([str(path)], directory=f"{place}/out", spec=self.spec, csv=CsvOptions(**given),
                workers=1)  # fmt: skip
        return [
            record
            for shard in sorted((place / "out").glob("*.tfrecord"))
            for record in tf.data.TFRecordDataset(str(shard)).as_numpy_iterator()
        ]

    @functools.cached_property
    def rows(self) -> list[int]:
        """The numbers of the records that two epochs of a training read, in their order."""
        if not self.spec.filter and self.spec.kept_together is None:
            return []
        digest = zlib.crc32(b"".join(self.records))
        key = f"{digest}-{zlib.crc32(repr((self.spec.filter, self.spec.kept_together)).encode())}"
        if key not in _READ:
            _READ[key] = self._read(str(self._folder / f"{key}.tfrecord"))
        return _READ[key]

    def _read(self, path: str) -> list[int]:
        with tf.io.TFRecordWriter(path) as writer:
            for number, record in enumerate(self.records):
                numbered = tf.train.Example.FromString(record)
                numbered.features.feature["number"].int64_list.value.append(number)
                writer.write(numbered.SerializeToString())
        document = {**self.document, "raw": ["number"]}
        document["features"] = {**document["features"], "number": {"dtype": "int64"}}
        spec = feature_specs.parse(document, directory=self._folder)
        batches = input_fns.train_input_fn(spec, [path], batch_size=4, epochs=2)()
        return [n for features, _ in batches for n in features["number/raw"].numpy().tolist()]

    @functools.cached_property
    def values(self) -> dict[str, Any]:
        """The tensors of the records, without those that only metrics read."""
        features, labels = Transform(self.spec).features_and_labels(tf.constant(self.records))
        return {
            name: (value.dtype.name, _plain(value))
            for part in (features, labels)
            for name, value in part.items()
            if not name.endswith("/seen")
        }

    @functools.cached_property
    def _predicted(self) -> dict[str, Any]:
        with _graph(self, tf.estimator.ModeKeys.PREDICT) as (made, session, variables):
            fill(variables, session)
            named = {
                f"{name} of {signature}": value
                for signature, output in made.export_outputs.items()
                for name, value in _tensors(output).items()
            }
            found, numbers = session.run((named, made.predictions))
        shapes = {v.op.name: tuple(v.shape.as_list()) for v in variables}
        forms = {
            n: (v.dtype.name, v.shape.rank and v.shape[1:].as_list()) for n, v in named.items()
        }
        numbers = {k: v for k, v in numbers.items() if v.dtype.kind == "f"}
        words = {k: v for k, v in found.items() if v.dtype.kind != "f"}
        return {"weights": (shapes, Common(numbers)), "outputs": (forms, words)}

    @property
    def weights(self) -> Any:
        """The names and shapes of variables, and the numbers of the answers."""
        return self._predicted["weights"]

    @property
    def outputs(self) -> Any:
        """The names, types and shapes of answers and signatures, and their words and ids."""
        return self._predicted["outputs"]

    @functools.cached_property
    def training(self) -> dict[str, Any]:
        """The start values; the loss of the next step, and what the step makes of variables."""
        with _graph(self, tf.estimator.ModeKeys.TRAIN) as (made, session, variables):
            if made.scaffold is not None and made.scaffold._user_init_fn is not None:
                made.scaffold.init_fn(session)
            named = {v.op.name: v for v in variables}
            start = session.run(named)
            fill(variables, session)
            loss = session.run([made.loss, made.train_op])[0]
            return {"start": start, "loss": loss, "end": session.run(named)}

    @functools.cached_property
    def scores(self) -> dict[str, Any]:
        """The metrics of one batch."""
        with _graph(self, tf.estimator.ModeKeys.EVAL) as (made, session, variables):
            fill(variables, session)
            metrics = made.eval_metric_ops
            loss = session.run([made.loss, *(update for _, update in metrics.values())])[0]
            found = session.run({name: value for name, (value, _) in metrics.items()})
        return {"batch": loss, "metrics": Common(found)}


class Common(dict):
    """Values of which only the names on both sides are compared."""


@contextlib.contextmanager
def _graph(observed: Observed, mode: str) -> Iterator[Any]:
    """The model in a separate graph: (EstimatorSpec, session, variables)."""
    seeds, random_seed.get_seed = random_seed.get_seed, _by_name
    try:
        with tf.Graph().as_default() as graph, quick_session() as session:
            graph.seed = observed.seed
            tf.compat.v1.train.get_or_create_global_step()
            transform, records = Transform(observed.spec), observed.records
            if mode == tf.estimator.ModeKeys.EVAL:  # Which scores the rows that pass the filter.
                records = Selection(observed.spec).passing(tf.constant(records))
            if mode == tf.estimator.ModeKeys.PREDICT:
                made = observed.model(transform.features(records), None, mode)
            else:
                made = observed.model(*transform.features_and_labels(records), mode)
            initialize(session)
            yield made, session, tf.compat.v1.global_variables()
    finally:
        random_seed.get_seed = seeds


def quick_session() -> Any:
    """A session for a graph that runs once, which takes longer to optimize than to run."""
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, allow_soft_placement=True
    )
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.compat.v1.Session(config=config)


def initialize(session: Any, *ops: Any) -> None:
    """Initializes variables and tables of the graph, and runs more ops."""
    v1 = tf.compat.v1
    session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
    session.run([v1.tables_initializer(), *ops])  # A table may be made from a variable.


def _by_name(seed: Optional[int]) -> tuple[int, int]:
    """The seeds of a random op, from its scope instead of from the number of earlier ops."""
    graph = tf.compat.v1.get_default_graph()
    return graph.seed, zlib.crc32(graph.get_name_scope().encode()) if seed is None else seed


def fill(variables: list[Any], session: Any) -> None:
    """Gives each variable values from a hash of its name, all in one run."""
    values = {}
    for variable in variables:
        if not variable.shape.is_fully_defined():
            continue  # A sum of rows of a table, which begins empty.
        shape, name = variable.shape.as_list(), variable.op.name
        if variable.dtype.base_dtype.is_floating:
            found = np.random.default_rng(zlib.crc32(name.encode())).uniform(0.1, 0.6, shape)
        else:
            found = np.full(shape, 3 if name == "global_step" else 1)
        values[variable.initializer.inputs[1]] = found
    session.run([v.initializer for v in variables if v.initializer.inputs[1] in values], values)


def _tensors(output: Any) -> dict[str, Any]:
    """The tensors of an ExportOutput by name."""
    for names in (("outputs",), ("value",), ("classes", "scores")):
        if hasattr(output, names[0]):
            found = {name: getattr(output, name) for name in names}
            return (
                found.pop("outputs")
                if names == ("outputs",)
                else {k: v for k, v in found.items() if v is not None}
            )
    raise TypeError(output)


def _plain(value: Any) -> Any:
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy()


def same(a: Any, b: Any) -> bool:
    """Whether two observations are equal, up to the last bits of sums."""
    if isinstance(a, dict):
        keys = a.keys() & b.keys() if isinstance(a, Common) else a.keys() | b.keys()
        return all(k in a and k in b and same(a[k], b[k]) for k in keys)
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(b, (list, tuple)):
        return False
    if isinstance(a, (np.ndarray, np.generic, float)):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
            return False
        if a.dtype.kind == "f":
            return np.allclose(a, b, rtol=1e-5, atol=1e-7, equal_nan=True)
        return bool((a == b).all())
    return bool(a == b)


def example(row: dict[str, Any]) -> bytes:
    """A record of a row that a table cannot have, such as one with bytes."""
    return writing.example(row).SerializeToString()


def sequence_example(context: dict[str, Any], lists: dict[str, Any]) -> bytes:
    """A record with feature lists."""
    return writing.sequence_example(context, lists).SerializeToString()
