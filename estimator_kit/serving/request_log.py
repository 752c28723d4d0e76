"""`--serving_log_dir`: logs answered requests as `PredictionLog`s, TensorFlow Serving's format.

    log = RequestLog(folder, rate=0.1, ...)
    log.start()
    if log.takes("ads", model):                 # in the threads that answer
        log.add(Entry("predict", ...))
    log.close()

An answer never waits for the log. `add` puts an entry into a queue, and one thread removes private
values (`private_features`) and writes the files (`log_files`). When the queue is full, an entry is
dropped. Each answered request is counted once, by what happened to it (`OUTCOMES`). `metrics` has
the counts, and so has a line of the log: once a minute if requests were lost, and at the end.

The metadata of a record has the name of the model, the version that answered, the signature, the
rate, and the time of the answer in seconds since 1970.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Optional

from tensorflow_serving.apis import prediction_log_pb2

from estimator_kit.client.tensors import DEFAULT_SIGNATURE
from estimator_kit.config.areas.serving import Serving
from estimator_kit.errors import ConfigError
from estimator_kit.serving.loaded_model import LoadedModel
from estimator_kit.serving.log_files import LogFiles, recover
from feature_specs.files import file_systems, staged

_log = logging.getLogger("estimator_kit")

# What happens to an answered request, also for the help text of the metric.
OUTCOMES = {
    "written": "it is in a file",
    "sampled_out": "--serving_log_rate left it out",
    "dropped": "the queue was full",
    "failed": "it could not be written",
    "no_spec": "its version has no feature spec",
}
_LOST = ("dropped", "failed", "no_spec")

# The most entries of the queue, and the most bytes of their requests and answers.
_MOST_ENTRIES, _MOST_BYTES = 10_000, 64 * 2**20

# Seconds between two looks at the queue. A look for each request would slow down its answer.
_LOOK_SECS = 0.25

# Seconds between two lines about requests that were lost.
_SAY_SECS = 60.0

# Seconds that the thread has to write what is left when the server ends.
_LAST_WRITE = 10.0

_MIB = 2**20
_COUNTER = "estimator_kit_request_log_requests_total"


class Entry(NamedTuple):
    """An answered request.

    Attributes:
      method: predict, classify or regress.
      name: the name of the model.
      model: the version that answered.
      signature: the name of its signature; empty for the default one.
      size: about how many bytes request and answer have.
      fill_request, fill_response: fill the messages. The thread of the log calls them.
    """

    method: str
    name: str
    model: LoadedModel
    signature: str
    size: int
    fill_request: Callable[[Any], Any]
    fill_response: Callable[[Any], Any]


class RequestLog:
    """The request log of a server.

    Args:
      folder: the folder of the files.
      rate: the share of requests to log.
      secs, file_bytes, keep_bytes: see `LogFiles`.
      clock: the seconds since 1970.
      draw: draws a number from 0 to 1, without 1.
    """

    def __init__(
        self,
        folder: str,
        *,
        rate: float,
        secs: float,
        file_bytes: int,
        keep_bytes: int,
        clock: Callable[[], float] = time.time,
        draw: Callable[[], float] = random.random,
    ):
        self._folder, self._rate = folder, rate
        self._clock, self._draw = clock, draw
        self._files = LogFiles(
            folder, secs=secs, file_bytes=file_bytes, keep_bytes=keep_bytes, tell=self._count
        )
        self._changed = threading.Condition()
        self._entries: deque[tuple[int, Entry]] = deque()
        self._bytes = 0
        self._ending = False
        self._counting = threading.Lock()
        self._counts = dict.fromkeys(OUTCOMES, 0)
        self._said = dict(self._counts)
        self._said_at = -_SAY_SECS
        self._reason = ""
        self._thread = threading.Thread(target=self._run, name="request log", daemon=True)

    @property
    def counts(self) -> dict[str, int]:
        """How many answered requests had each of the `OUTCOMES` so far."""
        with self._counting:
            return dict(self._counts)

    def start(self) -> None:
        self._thread.start()

    def check(self, models: Any) -> None:
        """Checks that each live version says what is private.

        Raises:
          ConfigError: a version does not.
        """
        for name, versions in models.live().items():
            for version in versions:
                with models.lease(name, version) as model:
                    if model.private is None:
                        raise ConfigError(
                            f"--serving_log_dir: version {version} of model {name!r} ({model.path})"
                            " has no assets.extra/feature_spec/spec.json, so nothing says which "
                            "features are private, and its requests must not be logged. Serve an "
                            "export of the kit, or remove --serving_log_dir."
                        )

    def takes(self, name: str, model: LoadedModel) -> bool:
        """Whether to log an answered request. Counts the request if not."""
        if model.private is None:
            why = f"version {model.version} of model {name} has no feature spec"
            self._count("no_spec", 1, why)
            return False
        if self._rate < 1 and self._draw() >= self._rate:
            self._count("sampled_out", 1)
            return False
        return True

    def add(self, entry: Entry) -> None:
        """Puts an entry into the queue, or drops it. Does not wait for the disk."""
        seconds = int(self._clock())
        with self._changed:
            is_full = len(self._entries) >= _MOST_ENTRIES or self._bytes + entry.size > _MOST_BYTES
            if not is_full and not self._ending:
                self._entries.append((seconds, entry))
                self._bytes += entry.size
                if 2 * len(self._entries) > _MOST_ENTRIES or 2 * self._bytes > _MOST_BYTES:
                    self._changed.notify()
                return
        self._count("dropped", 1, "the server has ended" if self._ending else "the queue is full")

    def close(self) -> None:
        """Writes what is in the queue, and ends. Does not wait for a disk that hangs."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        if self._thread.ident is None:
            return
        self._thread.join(_LAST_WRITE)
        if self._thread.is_alive():
            _log.warning("request log: %s is still being written at the end", self._folder)
        counts = self.counts
        _log.info(
            "request log: %d requests in %d files of %s; %s", counts["written"], self._files.files,
            self._folder, ", ".join(f"{counts[k]} {k}" for k in OUTCOMES if k != "written"),
        )  # fmt: skip

    def metrics(self) -> bytes:
        """The counts in Prometheus' text format."""
        what = "; ".join(f"{name}: {text}" for name, text in OUTCOMES.items())
        lines = [f"# HELP {_COUNTER} Answered requests ({what}).", f"# TYPE {_COUNTER} counter"]
        lines += [f'{_COUNTER}{{outcome="{name}"}} {n}' for name, n in self.counts.items()]
        for name, kind, text, value in (
            ("files_total", "counter", "Files that were written.", self._files.files),
            ("removed_files_total", "counter", "Files that were removed.", self._files.removed),
            ("queue_bytes", "gauge", "Bytes that wait to be written.", self._bytes),
        ):
            full = f"estimator_kit_request_log_{name}"
            lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}", f"{full} {value}"]
        return "".join(f"{line}\n" for line in lines).encode()

    def _count(self, outcome: str, number: int, reason: str = "") -> None:
        with self._counting:
            self._counts[outcome] += number
            self._reason = reason or self._reason

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._ending:
                    self._changed.wait(_LOOK_SECS)
                entries, self._entries = self._entries, deque()
                ending = self._ending
            self._write(entries)
            self._say_what_is_lost(at_once=ending)
            if ending:
                self._files.close()
                self._say_what_is_lost(at_once=True)
                return

    def _write(self, entries: deque[tuple[int, Entry]]) -> None:
        try:
            self._files.write(self._records(entries), self._clock())
        except Exception:  # A bug. The thread goes on.
            _log.exception("request log: up to %d requests were not logged", len(entries))
        with self._changed:
            self._bytes -= sum(entry.size for _, entry in entries)

    def _records(self, entries: Iterable[tuple[int, Entry]]) -> Iterator[bytes]:
        for seconds, entry in entries:
            try:
                record = self._record(seconds, entry)
            except Exception as error:  # Such as a record whose private values cannot be removed.
                self._count("failed", 1, f"{type(error).__name__}: {error}")
            else:
                yield record
            time.sleep(0)  # Lets a thread that answers run now, and not milliseconds later.

    def _record(self, seconds: int, entry: Entry) -> bytes:
        log = prediction_log_pb2.PredictionLog()
        metadata = log.log_metadata
        metadata.model_spec.name = entry.name
        metadata.model_spec.version.value = entry.model.version
        metadata.model_spec.signature_name = entry.signature or DEFAULT_SIGNATURE
        metadata.sampling_config.sampling_rate = self._rate
        metadata.saved_model_tags.append("serve")
        metadata.timestamp_secs = seconds
        of_method = getattr(log, f"{entry.method}_log")
        entry.fill_request(of_method.request)
        entry.fill_response(of_method.response)
        private = entry.model.private
        assert private is not None, "`takes` refuses such versions"
        definition = entry.model.signatures[metadata.model_spec.signature_name]
        private.clean(of_method.request, definition.inputs)
        private.clean_answer(of_method.response)
        return bytes(log.SerializeToString())

    def _say_what_is_lost(self, at_once: bool) -> None:
        counts = self.counts
        lost = {name: counts[name] - self._said[name] for name in _LOST}
        now = time.monotonic()
        if not any(lost.values()) or (now < self._said_at + _SAY_SECS and not at_once):
            return
        self._said, self._said_at = counts, now
        parts = [f"{number} {name} ({OUTCOMES[name]})" for name, number in lost.items() if number]
        _log.warning("request log: not logged: %s. %s", ", ".join(parts), self._reason)


def of_settings(serving: Serving) -> Optional[RequestLog]:
    """The request log of a server, or None without `--serving_log_dir`. Makes its folder.

    Raises:
      ConfigError: the folder cannot be written.
    """
    folder = serving.serving_log_dir
    if folder is None:
        return None
    staged.check_writable(folder, flag="--serving_log_dir")
    try:
        file_systems.make_folder(folder)
        kept = recover(folder)
    except OSError as error:
        raise ConfigError(
            f"--serving_log_dir={folder} cannot be used: {error}. Choose another folder."
        ) from error
    if kept:
        _log.warning("request log: kept %d requests of a server that was killed", kept)
    return RequestLog(
        folder,
        rate=serving.serving_log_rate,
        secs=serving.serving_log_secs,
        file_bytes=serving.serving_log_mib * _MIB,
        keep_bytes=serving.serving_log_keep_mib * _MIB,
    )
