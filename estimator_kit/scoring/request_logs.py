"""Reads request logs: TFRecord files of `tensorflow.serving.PredictionLog`.

    logs = RequestLogs(lambda version: spec)
    for block in logs.blocks("logs/requests-20260105T133000Z-4711-0.tfrecord"):
        block.times, block.version, block.records, block.scores["click"]

TensorFlow Serving writes such files, and so does `serve --serving_log_dir`. A block has the rows of
requests that one version answered with scores of the same objectives, in the order of the file. All
rows of a request are in one block.

The time of a row is the timestamp in the log's metadata; else, the feature `time_feature` of its
record; else, the time in the file's name. The version is the one of the metadata, else of the
answer, else the one that was live at that time (`version_at`). Nothing is left out silently:
`not_read` counts the requests that have no rows, such as requests to a signature that takes no
records. This module writes nothing.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from estimator_kit.client import messages, tensors
from estimator_kit.scoring import logged_answers
from estimator_kit.scoring.raw_requests import RawRequests
from feature_specs.files import file_systems
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze.protobuf_records import NotAnExample
from input_pipelines.prepare.analyze.wire import parse_block
from input_pipelines.reading import files
from input_pipelines.record_files import record_lists, tfrecords
from input_pipelines.transform.serving_inputs import EXAMPLES

# The end of the name under which a server has the canary of a model.
CANARY = "_canary"

# The rows of a block, about.
_ROWS = 1024

_NAME_WITH_TIME = re.compile(r"(\d{8}T\d{6})Z")

# Seconds of the first time that datetime cannot express.
_YEAR_10000 = 253_402_300_800


@dataclasses.dataclass(frozen=True)
class Block:
    """Rows of requests that one version answered.

    Attributes:
      path: the log file.
      version: the version that answered; None if neither the log nor `version_at` tells.
      times: when each row was asked, in seconds since 1970, float64 [rows].
      requests: the number of the request of each row in its file, int64 [rows].
      records: the serialized Examples or SequenceExamples.
      features: their features, as `wire.parse_block` returns them.
      scores: the scores by objective, float64 [rows] or [rows, n]; see `logged_answers.scores`.
    """

    path: str
    version: Optional[int]
    times: NDArray[np.float64]
    requests: NDArray[np.int64]
    records: list[bytes]
    features: Mapping[str, Any]
    scores: dict[str, NDArray[np.float64]]

    def take(self, which: NDArray[Any]) -> Block:
        """The rows with these places."""
        records = [self.records[i] for i in which.tolist()]
        return Block(
            self.path,
            self.version,
            self.times[which],
            self.requests[which],
            records,
            parse_block(records),
            {name: values[which] for name, values in self.scores.items()},
        )


@dataclasses.dataclass
class _Waiting:
    """The rows of a block that is not full yet."""

    times: list[Optional[float]] = dataclasses.field(default_factory=list)
    requests: list[int] = dataclasses.field(default_factory=list)
    records: list[bytes] = dataclasses.field(default_factory=list)
    scores: list[dict[str, Any]] = dataclasses.field(default_factory=list)


class SeveralModels(DataError):
    """The logs have requests to several models, and nothing says which one counts."""


class RequestLogs:
    """Reads log files.

    Args:
      spec_of: the spec of a version; of None, the spec of all versions whose own is not known.
      model: the name of the model whose requests are read, also those to its canary; by default a
        file may have only one.
      time_feature: a feature of records with seconds since 1970.
      version_at: the version that was live at a time, or None.

    Attributes:
      not_read: how many requests were not read, by the reason.
      models: the names of models in the logs.
    """

    def __init__(
        self,
        spec_of: Callable[[Optional[int]], FeatureSpec],
        *,
        model: Optional[str] = None,
        time_feature: Optional[str] = None,
        version_at: Callable[[float], Optional[int]] = lambda time: None,
    ):
        self._spec_of = spec_of
        self._model = model.removesuffix(CANARY) if model is not None else None
        self._time_feature = time_feature
        self._version_at = version_at
        self._message = messages.message("tensorflow.serving.PredictionLog")
        self._raw: dict[Optional[int], RawRequests] = {}
        self.not_read: collections.Counter[str] = collections.Counter()
        self.models: set[str] = set()

    def blocks(self, path: str) -> Iterator[Block]:
        """The rows of one file.

        Raises:
          DataError: the file is damaged, or a record is not a PredictionLog or has no time.
          SeveralModels: the file has requests to several models and `model` is not set.
        """
        waiting: dict[tuple[Any, ...], _Waiting] = {}
        number = 0
        for records in _records(path):
            for record in records:
                log = self._log(path, number, record)
                for key, rows in self._rows_of(path, number, log):
                    block = waiting.setdefault(key, _Waiting())
                    _append(block, number, *rows)
                number += 1
            for key in [key for key, block in waiting.items() if len(block.records) >= _ROWS]:
                yield from self._block(path, key, waiting.pop(key))
        for key, block in waiting.items():
            yield from self._block(path, key, block)

    def _log(self, path: str, number: int, record: bytes) -> Any:
        try:
            log = self._message.FromString(record)
        except DecodeError as error:
            raise DataError(
                f"{path}: record {number} is not a tensorflow.serving.PredictionLog"
            ) from error
        if log.WhichOneof("log_type") is None:
            raise DataError(
                f"{path}: record {number}: expected a tensorflow.serving.PredictionLog, got a "
                "message without a request. Name only request logs."
            )
        return log

    def _rows_of(self, path: str, number: int, log: Any) -> Iterator[tuple[Any, Any]]:
        """The key of a block, and the rows of a request: time, records and scores."""
        kind = log.WhichOneof("log_type")
        body = getattr(log, kind)
        if kind not in ("predict_log", "classify_log", "regress_log", "multi_inference_log"):
            self.not_read[f"requests of the kind {kind}"] += 1
            return
        asked = body.request
        specs = [log.log_metadata.model_spec]
        if kind == "multi_inference_log":
            specs += [task.model_spec for task in asked.tasks]
            specs += [result.model_spec for result in body.response.results]
        else:
            specs += [asked.model_spec, body.response.model_spec]
        if not self._is_ours(path, number, specs):
            return
        time = float(log.log_metadata.timestamp_secs) or None
        versions = (each.version.value for each in specs if each.HasField("version"))
        version = next(versions, None)
        if version is None and (time is not None or self._time_feature is None):
            version = self._version_at(time if time is not None else self._time_of_name(path))
        spec = self._spec_of(version)
        try:
            records = self._records_of(kind, asked, version, spec)
            if records is None:
                self.not_read["requests to a signature that takes no records"] += 1
                return
            signature = next((each.signature_name for each in specs if each.signature_name), "")
            found = _scores_of(kind, body, signature, spec, len(records))
        except ValueError as error:
            self.not_read[f"requests with a tensor that cannot be read, such as: {error}"] += 1
            return
        if records:
            yield (version, *found), (time, records, found)

    def _is_ours(self, path: str, number: int, specs: list[Any]) -> bool:
        """Whether a request is to the wanted model."""
        name = next((each.name for each in specs if each.name), "").removesuffix(CANARY)
        if self._model is not None:
            if name != self._model:
                self.not_read["requests to other models"] += 1
            return name == self._model
        self.models.add(name)
        if len(self.models) > 1:
            raise SeveralModels(
                f"{path}: record {number}: the logs have requests to several models, "
                f"{', '.join(map(repr, sorted(self.models)))}. Choose one with --request_model."
            )
        return True

    def _records_of(
        self, kind: str, asked: Any, version: Optional[int], spec: FeatureSpec
    ) -> Optional[list[bytes]]:
        """The records of a request; None if its signature takes none."""
        if kind != "predict_log":
            part = getattr(asked.input, asked.input.WhichOneof("kind") or "example_list")
            context = part.context.SerializeToString() if hasattr(part, "context") else b""
            return [context + each.SerializeToString() for each in part.examples]
        if [*asked.inputs] == [EXAMPLES]:
            array = tensors.to_array(asked.inputs[EXAMPLES])
            return array.tolist() if array.dtype == np.object_ and array.ndim == 1 else None
        if version not in self._raw:
            self._raw[version] = RawRequests(spec)
        return self._raw[version].records(asked.inputs)

    def _block(self, path: str, key: tuple[Any, ...], rows: _Waiting) -> Iterator[Block]:
        """The block of some rows; several if only their times tell which version answered."""
        try:
            features = parse_block(rows.records)
        except NotAnExample as error:
            raise DataError(
                f"{path}: record {rows.requests[error.row]}: the request has a record that is not "
                "a serialized tf.train.Example or SequenceExample"
            ) from error
        names = key[1:]
        scores = {name: np.concatenate([each[name] for each in rows.scores]) for name in names}
        times = self._times(path, rows.times, features)
        requests = np.array(rows.requests, np.int64)
        block = Block(path, key[0], times, requests, rows.records, features, scores)
        if key[0] is not None or self._time_feature is None:
            yield block
            return
        first = times[np.unique(requests, return_index=True)[1]]  # Of each request.
        versions = [self._version_at(float(time)) for time in first]
        of_rows = np.array([-1 if v is None else v for v in versions])[
            np.unique(requests, return_inverse=True)[1].reshape(-1)
        ]
        for version in np.unique(of_rows).tolist():
            part = block.take(np.flatnonzero(of_rows == version))
            yield dataclasses.replace(part, version=None if version < 0 else version)

    def _times(
        self, path: str, stamped: list[Optional[float]], features: Mapping[str, Any]
    ) -> NDArray[np.float64]:
        times = np.array([math.nan if time is None else time for time in stamped], np.float64)
        if self._time_feature is not None and np.isnan(times).any():
            own = numbers_of(features, self._time_feature, len(times))
            times = np.where(np.isnan(times), own, times)
        if np.isnan(times).any():
            times = np.where(np.isnan(times), self._time_of_name(path), times)
        wrong = (times < 0) | (times >= _YEAR_10000)
        if wrong.any():
            raise DataError(
                f"{path}: a request has the time {times[wrong][0]:g}, expected seconds since 1970. "
                "Check --request_time."
            )
        return times

    def _time_of_name(self, path: str) -> float:
        match = _NAME_WITH_TIME.search(path.rpartition("/")[2])
        try:
            if match is not None:
                at = datetime.datetime.strptime(match[1], "%Y%m%dT%H%M%S")
                return at.replace(tzinfo=datetime.timezone.utc).timestamp()
        except ValueError:
            pass
        raise DataError(
            f"{path}: a request has no time: its log has no timestamp, and the name of the file no "
            "time such as 20260105T133000Z. Name a feature with the time in --request_time."
        )


def _append(
    block: _Waiting, number: int, time: Optional[float], records: list[bytes], found: dict[str, Any]
) -> None:
    block.times += [time] * len(records)
    block.requests += [number] * len(records)
    block.records += records
    block.scores.append(found)


def _scores_of(
    kind: str, body: Any, signature: str, spec: FeatureSpec, rows: int
) -> dict[str, Any]:
    """The scores of an answer of a signature, by objective."""
    response = body.response
    if kind == "predict_log":
        outputs = {name: tensors.to_array(value) for name, value in response.outputs.items()}
        return logged_answers.scores(spec, signature, outputs, rows)
    if kind != "multi_inference_log":
        return logged_answers.scores(spec, signature, _outputs(response.result), rows)
    found: dict[str, Any] = {}
    for result in response.results:
        part = getattr(result, result.WhichOneof("result") or "regression_result")
        found |= logged_answers.scores(spec, result.model_spec.signature_name, _outputs(part), rows)
    return dict(sorted(found.items()))


def _outputs(result: Any) -> dict[str, Any]:
    """The arrays of a `ClassificationResult` or `RegressionResult`."""
    if hasattr(result, "regressions"):
        return {"outputs": np.array([each.value for each in result.regressions], np.float64)}
    rows = [[each.score for each in row.classes] for row in result.classifications]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("the rows of a classification have different numbers of classes")
    return {"scores": np.array(rows, np.float64)}


def log_files(patterns: Sequence[str]) -> list[str]:
    """The files of `--request_logs`. Of a folder, all files with `tfrecord` in their name.

    Raises:
      DataError: a pattern has no file.
    """
    named = [
        os.path.join(pattern, "*tfrecord*") if file_systems.is_folder(pattern) else pattern
        for pattern in patterns
    ]
    return files.expand(named, flag="--request_logs")


def _records(path: str) -> Iterator[list[bytes]]:
    """The records of a file, a block at a time."""
    try:
        yield from record_lists.of_files([path])
    except tfrecords.READ_ERRORS as error:
        reason = tfrecords.corruption(path)
        if reason is None:
            raise
        raise DataError(reason) from error


def values_of(features: Mapping[str, Any], name: str, rows: int) -> NDArray[np.object_]:
    """The value of a feature in each row: bytes, a number, or None without exactly one value."""
    values = np.full(rows, None, np.object_)
    for block in features.get(name, ()):
        one = np.flatnonzero(block.lengths == 1)
        starts = np.cumsum(block.lengths) - block.lengths
        stored = block.values
        listed = (
            [stored[i] for i in starts[one].tolist()]
            if isinstance(stored, list)
            else (stored[starts[one]].tolist())
        )
        for row, value in zip(block.rows[one].tolist(), listed):
            values[row] = value
    return values


def has_dtype(value: Any, dtype: str) -> bool:
    """Whether a value of a feature, bytes or a number, has a dtype of the spec."""
    return isinstance(value, bytes) == (dtype == "string")


def numbers_of(features: Mapping[str, Any], name: str, rows: int) -> NDArray[np.float64]:
    """The number of a feature in each row; NaN without exactly one number."""
    values = values_of(features, name, rows)
    return np.array(
        [value if isinstance(value, (int, float)) else math.nan for value in values], np.float64
    )
