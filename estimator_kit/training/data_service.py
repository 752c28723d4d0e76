"""`--data_service`: training on batches that a tf.data service computes.

Waits for the service, makes the input_fn that reads from it, and reports lost rows. The service's
job belongs to this training alone, and ends with it. `input_pipelines.data_service` defines what
the workers compute, and `commands.data_service` starts the dispatcher and the workers.
`config.rules` checks the flags.

TensorFlow waits without end for a missing dispatcher, for a first worker, and for a batch. Here
each of these waits has a limit, which `--cluster_timeout_secs` sets.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit import tensorflow_errors
from estimator_kit.config.areas.cluster import Cluster, DataService
from estimator_kit.config.areas.training import Training
from estimator_kit.errors import ConfigError
from input_pipelines import data_service
from input_pipelines.reading import shuffling
from input_pipelines.reading.selection import RowCounts
from input_pipelines.reading.sources import Files

_log = logging.getLogger("estimator_kit")

# A step that waits this many times --cluster_timeout_secs for a batch ends the run. The wait
# for lost rows, which takes --cluster_timeout_secs once, must fit in it.
_STEP_TIMEOUTS = 3

# Lists the workers that a dispatcher knows. It is the dispatcher's only call without an argument.
_GET_WORKERS = "/tensorflow.data.DispatcherService/GetWorkers"

# What a dispatcher says about a dataset or a reader that it has forgotten.
_FORGOTTEN = re.compile(
    r"(dataset|iteration|job|task)( client)?( id)? \d+ not found|unknown \w+ client id|"
    r"dispatcher restart",
    re.IGNORECASE,
)


def check_process() -> None:
    """Checks that op determinism is off. It refuses `tf.timestamp`, which finds lost rows.

    Raises:
      ConfigError: op determinism is on, because of an earlier run with `--deterministic` or of the
        caller.
    """
    try:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            session.run(tf.timestamp())
    except tf.errors.FailedPreconditionError as error:
        raise ConfigError(
            "--data_service: op determinism is enabled in this process, for example by an earlier "
            "run with --deterministic. It lasts until the process ends, and a tf.data service does "
            "not work with it. Start this run in a new process."
        ) from error


def answers(address: str, *, seconds: float) -> bool:
    """Whether a dispatcher answers within some seconds."""
    import grpc

    with grpc.insecure_channel(address.partition("://")[2]) as channel:
        try:
            channel.unary_unary(_GET_WORKERS)(b"", timeout=seconds)
        except grpc.RpcError:
            return False
    return True


def wait_for_service(
    service: DataService,
    cluster: Cluster,
    *,
    workers: bool = True,
    ended: Optional[threading.Event] = None,
) -> None:
    """Returns when the dispatcher answers and, with `workers`, when it has a worker.

    Args:
      config: names the service, and the seconds to wait.
      workers: whether to wait for a worker, too.
      ended: an event that ends the wait, such as a signal.

    Raises:
      tf.errors.UnavailableError: this did not happen within `cluster_timeout_secs`.
    """
    import grpc  # TensorFlow requires it, but some builds of TensorFlow do not.

    address, seconds = service.data_service, cluster.cluster_timeout_secs
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
                answer = ask(b"", timeout=min(left, 5.0))
                if answer or not workers:
                    return
                problem = "it has no worker; start one with --mode=data_service"
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
            if (ended or threading.Event()).wait(min(0.2, max(left, 0))):
                return
    what = "got no worker" if problem.startswith("it has no worker") else "did not answer"
    raise tf.errors.UnavailableError(
        None,
        None,
        f"--data_service={address}: the dispatcher {what} within {seconds:g} seconds ({problem}). "
        "Check that it runs and that this machine can reach it, or raise "
        "--cluster_timeout_secs.",
    )


def input_fn(
    service: DataService,
    training: Training,
    cluster: Cluster,
    source: Files,
    skip_rows: int,
    counts: Optional[Sequence[RowCounts]],
) -> Callable[[], Any]:
    """The input_fn of a training whose batches the service computes.

    After `skip_rows` rows it starts again at the first row of the current epoch.
    """
    assert service.data_service is not None
    first = 0
    if skip_rows and counts is not None:
        first = shuffling.epoch_of(skip_rows, counts[0].rows_an_epoch)[0]
        _log.warning(
            "--data_service reads rows in no fixed order. This start begins epoch %d again and "
            "ends at the same step, so it reads some rows again and leaves some rows out.",
            first + 1,
        )
    worker_input = data_service.WorkerInput(
        source, batch_size=training.batch_size, first_epoch=first, epochs=training.epochs
    )
    rows: Optional[int] = None  # The rows up to the end of the epochs, if --epochs is set.
    if training.epochs is not None and counts is not None:
        rows = sum(part.in_epochs(training.epochs) for part in counts) - skip_rows
    registered = data_service.register(service.data_service, worker_input.dataset())

    def read() -> Any:
        return data_service.read(
            registered,
            batch_size=training.batch_size,
            rows=rows,
            lost_after_secs=cluster.cluster_timeout_secs,
        )

    return read


class StepTimeout(tf.compat.v1.train.SessionRunHook):
    """Ends a step that takes longer than `seconds` with a DeadlineExceededError."""

    def __init__(self, seconds: float):
        self._milliseconds = int(1000 * seconds)

    def before_run(self, run_context: Any) -> Any:
        options = tf.compat.v1.RunOptions(timeout_in_ms=self._milliseconds)
        return tf.compat.v1.train.SessionRunArgs(None, options=options)


def hooks(service: DataService, cluster: Cluster) -> list[StepTimeout]:
    """The hooks that end a step that gets no batch. Empty without a service."""
    if service.data_service is None:
        return []
    return [StepTimeout(_STEP_TIMEOUTS * cluster.cluster_timeout_secs)]


@contextlib.contextmanager
def naming_the_service(service: DataService, cluster: Cluster) -> Iterator[None]:
    """Replaces errors of the service by one that names it, and has the status of a temporary error.

    A step waited too long, or the dispatcher was started again without what it knew.
    """
    try:
        yield
    except tf.errors.DeadlineExceededError as error:
        if service.data_service is None:
            raise
        seconds = _STEP_TIMEOUTS * cluster.cluster_timeout_secs
        raise tf.errors.UnavailableError(
            None,
            None,
            f"--data_service={service.data_service}: a step got no batch within {seconds:g} "
            "seconds, three times --cluster_timeout_secs. Check that the dispatcher and a "
            "worker run, then start again to go on from the last checkpoint.",
        ) from error
    except tf.errors.OpError as error:
        reason = tensorflow_errors.reason(error)
        if service.data_service is None or _FORGOTTEN.search(reason) is None:
            raise
        raise tf.errors.UnavailableError(
            None,
            None,
            f"--data_service={service.data_service}: the dispatcher does not know this training "
            f"any more ({reason.rstrip('.')}.) Was it started again without --data_service_dir? "
            "Start this training again to go on from the last checkpoint.",
        ) from error


def lost_rows(service: DataService, expected: Optional[int], read: int) -> int:
    """Returns how many rows were lost with a worker, and logs a warning if any were."""
    if service.data_service is None or expected is None or read >= expected:
        return 0
    lost = expected - read
    _log.warning(
        "--data_service: %s of %s rows were lost with a worker, and the model was not trained on "
        "them",
        f"{lost:,}",
        f"{expected:,}",
    )
    return lost
