"""The newest logged requests, and what candidate and live model answer to them.

    asked = newest(monitoring, spec_of, count=1000)
    shadow = compared(spec, asked, candidate=..., live=...)

Newest is by the time of a request. Files are read from the one that was written last, until no
other file can have a newer request: a file is never older than its requests. Both models answer
the requests again, so it does not matter which version answered them, or with which outputs. A log
file that is damaged is left out with a warning. This module writes nothing.
"""

from __future__ import annotations

import dataclasses
import datetime
import heapq
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from estimator_kit import tensorflow_errors
from estimator_kit.config.areas.monitoring import Monitoring
from estimator_kit.errors import ConfigError
from estimator_kit.retraining.shadow import Shadow, problem
from estimator_kit.scoring.eval_rows import predictions_of
from estimator_kit.scoring.request_logs import Block, RequestLogs, SeveralModels, log_files
from estimator_kit.serving.loaded_model import LoadedModel
from feature_specs.errors import counted
from feature_specs.files import file_systems
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError

_log = logging.getLogger("estimator_kit")


@dataclasses.dataclass(frozen=True)
class Asked:
    """Logged requests, the oldest first.

    Attributes:
      requests: the number of the request of each row, [rows].
      records: their serialized records.
      note: which requests they are, or why the logs have no request.
    """

    requests: NDArray[Any]
    records: list[bytes]
    note: str


def no_requests(count: int) -> Asked:
    """What is known without `--request_logs`."""
    return Asked(np.zeros(0, np.int64), [], "--request_logs is missing")


_Found = tuple[float, str, int, list[bytes]]  # Time, file, number in the file, records.


def newest(
    monitoring: Monitoring, spec_of: Callable[[Optional[int]], FeatureSpec], *, count: int
) -> Asked:
    """The newest `count` requests of `--request_logs`; fewer if the logs have fewer.

    Args:
      monitoring: the settings `request_logs`, `request_time` and `request_model`.
      spec_of: the spec of a version; of None, the spec of all others. Requests with one tensor for
        each feature need it.
      count: how many requests.

    Raises:
      SeveralModels: the logs have requests to several models, and no setting chooses one.
    """
    try:
        paths = log_files(monitoring.request_logs)
    except DataError as error:
        return Asked(np.zeros(0, np.int64), [], str(error))
    written = {path: file_systems.stamp(path)[1] / 1e9 for path in paths}
    reader = RequestLogs(
        spec_of, model=monitoring.request_model, time_feature=monitoring.request_time
    )
    found: list[_Found] = []  # A heap: the oldest first.
    left_out = 0
    for path in sorted(paths, key=lambda path: (-written[path], path)):
        if len(found) == count and written[path] < found[0][0]:
            break
        try:
            blocks = list(reader.blocks(path))
        except SeveralModels:
            raise
        except DataError as error:
            _log.warning("a log file is left out: %s", error)
            left_out += 1
            continue
        for request in _requests(path, blocks):
            heapq.heappush(found, request)
            if len(found) > count:
                heapq.heappop(found)
    found.sort()
    rows = [len(records) for *_, records in found]
    parts = [counted(len(found), "logged request"), counted(sum(rows), "row")]
    if found:
        parts.append(f"{_text(found[0][0])} to {_text(found[-1][0])}")
    parts += [f"{count:,} {why} were not read" for why, count in sorted(reader.not_read.items())]
    parts += [f"{counted(left_out, 'damaged log file')} left out"] if left_out else []
    return Asked(
        np.repeat(np.arange(len(found)), rows),
        [record for *_, records in found for record in records],
        ", ".join(parts),
    )


def _requests(path: str, blocks: list[Block]) -> Iterator[_Found]:
    """The requests of a file. A request is in one block, as it has one version and one time."""
    for block in blocks:
        numbers, starts = np.unique(block.requests, return_index=True)
        ends = [*starts[1:].tolist(), len(block.requests)]
        for number, start, end in zip(numbers.tolist(), starts.tolist(), ends):
            yield float(block.times[start]), path, number, block.records[start:end]


def _text(seconds: float) -> str:
    at = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def check(spec: FeatureSpec, monitoring: Monitoring) -> None:
    """Checks before a training that there are logs if the gate asks for logged requests.

    Raises:
      ConfigError: a condition needs `--request_logs`.
    """
    for condition in spec.retraining.gate.conditions or ():
        if condition.of_requests and not monitoring.request_logs:
            raise ConfigError(
                f"--request_logs is missing. The gate has the condition {condition.metric}, for "
                "which candidate and live model answer logged requests. Name the request logs of "
                "the server, or remove the condition."
            )


def compared(
    spec: FeatureSpec,
    asked: Asked,
    *,
    candidate: str,
    live: str,
    objectives: list[str],
    batch_size: int,
    model: Optional[LoadedModel] = None,
) -> Shadow:
    """What both models answer to the same requests.

    Args:
      spec: the spec of the cycle.
      asked: the requests.
      candidate, live: the folders of the SavedModels.
      objectives: the objectives with conditions. The live model may lack some.
      batch_size: how many rows are scored at a time.
      model: the candidate, if it is loaded already.
    """
    if not asked.records:
        return problem(f"no logged request can be answered: {asked.note}")
    answers: dict[str, Mapping[str, NDArray[Any]]] = {}
    for whose, path in (("candidate", candidate), ("live model", live)):
        is_candidate = whose == "candidate"
        try:
            answers[whose] = predictions_of(
                spec,
                path,
                objectives,
                asked.records,
                batch_size=batch_size,
                all_of_them=is_candidate,
                model=model if is_candidate else None,
            )
        except tf.errors.InvalidArgumentError as error:
            why = tensorflow_errors.reason(error)
            return problem(f"the {whose} cannot answer logged requests: {why}")
    entries = {name: spec.objectives[name] for name in objectives}
    return Shadow(
        asked.requests,
        answers["candidate"],
        answers["live model"],
        frozenset(n for n, e in entries.items() if e.answer and e.answer.output == "logits"),
        spec.retraining.gate.shadow.top_k,
        note=asked.note,
    )
