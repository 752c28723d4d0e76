"""`--data_service`: training on batches that a tf.data service computes.

Says whether a service is there, makes the input_fn that reads from it, and says what was lost. The
job is one of this training alone, and ends with it. What the workers compute is
`input_pipelines.data_service`; dispatcher and workers are started by `data_service_servers`; which
flags go with it is in `data_service_flags`.

TensorFlow waits for ever for a dispatcher that is not there, for a first worker, and for a batch;
here each of that has a time, `--data_service_timeout_secs`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config.experiment_config import ExperimentConfig
from feature_specs.spec import FeatureSpec
from input_pipelines import data_service
from input_pipelines.reading import shuffling
from input_pipelines.reading.selection import Negatives, RowCounts

_log = logging.getLogger("estimator_kit")

# A step that is so many times --data_service_timeout_secs without a batch ends the run: longer
# than the wait for lost rows, which is one.
_STEP_TIMEOUTS = 3

# The one call of TensorFlow's dispatcher that needs no argument: the workers that it knows.
_GET_WORKERS = "/tensorflow.data.DispatcherService/GetWorkers"


def wait_for_service(config: ExperimentConfig, *, workers: bool = True) -> None:
    """Returns once the dispatcher answers, and with `workers` knows a worker.

    Raises:
      tf.errors.UnavailableError: it has not in `data_service_timeout_secs`.
    """
    import grpc  # TensorFlow asks for it, and is without it where it was built otherwise.

    address, seconds = config.data_service, config.data_service_timeout_secs
    assert address is not None
    end = time.monotonic() + seconds
    said = False
    problem = "no answer"
    with grpc.insecure_channel(address.partition("://")[2]) as channel:
        ask = channel.unary_unary(_GET_WORKERS)
        while True:
            left = end - time.monotonic()
            if left <= 0:
                break
            try:
                known = ask(b"", timeout=min(left, 5.0))
                if known or not workers:
                    return
                problem = "it has no worker; start one with --mode=data_service_worker"
            except grpc.RpcError as error:
                problem = str(error.details() or error.code()).strip()
            if not said:
                said = True
                _log.info(
                    "waiting for the tf.data service at %s, up to %g seconds (%s)",
                    address,
                    seconds,
                    problem,
                )
            threading.Event().wait(min(0.2, max(left, 0)))
    what = "has no worker" if problem.startswith("it has no worker") else "does not answer"
    raise tf.errors.UnavailableError(
        None,
        None,
        f"--data_service={address}: the dispatcher {what} for {seconds:g} seconds ({problem}); "
        "look whether it runs and can be reached, or raise --data_service_timeout_secs",
    )


def input_fn(
    config: ExperimentConfig,
    spec: FeatureSpec,
    files: list[str],
    *,
    skip_rows: int,
    counts: Optional[Sequence[RowCounts]],
    negatives: Optional[Negatives],
) -> Callable[[], Any]:
    """The input_fn of a training whose batches the service computes.

    It begins with the first row of the epoch that `skip_rows` end in.
    """
    assert config.data_service is not None
    first = 0
    if skip_rows and counts is not None:
        first = shuffling.epoch_of(skip_rows, counts[0].rows_an_epoch)[0]
        _log.warning(
            "--data_service reads in no fixed order: this start begins with epoch %d anew, and "
            "ends at the same step; some of its rows are read again, others not",
            first + 1,
        )
    given = data_service.WorkerInput(
        spec,
        files,
        batch_size=config.batch_size,
        seed=config.seed,
        first_epoch=first,
        epochs=config.epochs,
        negatives=negatives,
    )
    rows: Optional[int] = None  # Until the end of the epochs, where they have one.
    if config.epochs is not None and counts is not None:
        rows = sum(part.in_epochs(config.epochs) for part in counts) - skip_rows
    registered = data_service.register(config.data_service, given.dataset())

    def read() -> Any:
        return data_service.read(
            registered,
            batch_size=config.batch_size,
            rows=rows,
            lost_after_secs=config.data_service_timeout_secs,
        )

    return read


class StepTimeout(tf.compat.v1.train.SessionRunHook):
    """Ends a step that takes longer than so many seconds, with a DeadlineExceededError."""

    def __init__(self, seconds: float):
        self._milliseconds = int(1000 * seconds)

    def before_run(self, run_context: Any) -> Any:
        options = tf.compat.v1.RunOptions(timeout_in_ms=self._milliseconds)
        return tf.compat.v1.train.SessionRunArgs(None, options=options)


def hooks(config: ExperimentConfig) -> list[StepTimeout]:
    """What ends a step for which no batch comes; nothing without a service."""
    if config.data_service is None:
        return []
    return [StepTimeout(_STEP_TIMEOUTS * config.data_service_timeout_secs)]


@contextlib.contextmanager
def naming_the_service(config: ExperimentConfig) -> Iterator[None]:
    """Turns the error of a step that waited too long for a batch into one that says so."""
    try:
        yield
    except tf.errors.DeadlineExceededError as error:
        if config.data_service is None:
            raise
        seconds = _STEP_TIMEOUTS * config.data_service_timeout_secs
        raise tf.errors.UnavailableError(
            None,
            None,
            f"--data_service={config.data_service}: a step took {seconds:g} seconds, three times "
            "--data_service_timeout_secs, for want of a batch; look whether the dispatcher and a "
            "worker run, and start again to go on from the last checkpoint",
        ) from error


def lost_rows(config: ExperimentConfig, expected: Optional[int], read: int) -> int:
    """Rows that a lost worker took along, and says so."""
    if config.data_service is None or expected is None or read >= expected:
        return 0
    lost = expected - read
    _log.warning(
        "--data_service: %s of %s rows did not come: a worker that was lost had them in hand, and "
        "they were not trained on",
        f"{lost:,}",
        f"{expected:,}",
    )
    return lost
