"""The life of a worker: it trains on its shard, and writes no checkpoint.

A worker that is started again takes the position of the last checkpoint for its own. One that
has come to its end stays until the training is over: where the chief or a ps is lost, what it has
trained since the last checkpoint is, too, and it trains that again. One that cannot go on for good
leaves the others: the chief ends without it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.checkpoints import reading
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.distributed import all_reduce, collective, servers, trainer
from estimator_kit.distributed.marks import Marks, goal_of
from estimator_kit.distributed.trainer import OneSession, SessionLost
from estimator_kit.distributed.waiting import wait_for, wait_until
from estimator_kit.distributed.watch import Watch
from estimator_kit.errors import Stopped
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.session_errors import explained
from estimator_kit.result import RunResult
from estimator_kit.training import bad_data
from estimator_kit.training.hooks.progress import ProgressHook
from estimator_kit.training.hooks.stop import SIGTERM, StopHook, StopRequest, stop_on_sigterm
from estimator_kit.training.source import TrainingInput, check_records
from estimator_kit.training.team import Team, needs_all_workers
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("estimator_kit")

_OVER = "over"

# Seconds between two looks of a worker that has come to its end.
_LOOK = 0.5

# Seconds that a worker goes on after SIGTERM where a step needs all.
_LAST_STEPS = 15.0


def run_worker(
    config: ExperimentConfig, spec: FeatureSpec, model: ModelFn, view: ClusterView
) -> RunResult:
    """Trains until the training is over, or the rows of the shard are through.

    Raises:
      Stopped: SIGTERM was received; the others go on.
      tf.errors.UnavailableError: the chief was stopped, or it or a ps was gone for longer than
        --cluster_timeout_secs.
      DataError, LossError, ConfigError: see their docstrings.
    """
    assert config.model_dir is not None
    marks, request = Marks(config.model_dir), StopRequest()

    def stop() -> None:
        if request.reason is None:
            request.ask(_OVER)

    strategy = None
    if config.strategy == "multi_worker_mirrored":
        strategy = collective.start_server(config, view)
    else:
        servers.start(config, view)
    progress = ProgressHook(config.max_steps, every_secs=config.log_every_secs, shared=True)
    with stop_on_sigterm(request), Watch(
        view, marks, seconds=config.cluster_timeout_secs, goal=goal_of(config), on_end=stop,
        leaves=True, request=request, workers_needed=needs_all_workers(config),
    ) as watch:

        def over() -> bool:
            return request.reason is not None

        seconds = config.cluster_timeout_secs
        others = [task for task in view.tasks() if not task[0].startswith("worker:")]
        wait_for(others, this=view.name, seconds=seconds, over=over)
        ready: Optional[dict[str, Any]] = None
        while not over():
            before, ready = ready, _next_session(view, marks, ready, seconds, over)
            if ready is None:
                break
            if before is not None and strategy is not None:
                raise tf.errors.UnavailableError(
                    None, None, f"{view.name}: chief:0 was started again; start all tasks again"
                )
            if (marks.look(f"ended-{view.name}") or {}).get("of") == ready["id"]:
                continue  # A former start of this task has trained to its end.
            hook = StopHook(request)
            if Team.of(config, view).ends_together:
                hook = _StopAfterOthers(request, watch.over)
            hooks = [progress, hook]
            try:
                of = _train(
                    config, spec, model, view, hooks, request, marks, strategy, ready, watch.over
                )
            except (tf.errors.OpError, SessionLost) as error:
                # Where all are stopped at once, others may leave in a step that needs them.
                if request.reason == SIGTERM:
                    break
                if isinstance(error, SessionLost):
                    raise tf.errors.UnavailableError(
                        None, None,
                        f"{view.name}: another task of the step is gone; start all tasks again to "
                        "go on from the last checkpoint",
                    ) from error  # fmt: skip
                raise
            if of is not None and not over():
                ready = {"id": of}
                marks.write(f"ended-{view.name}", of=of)
        if request.reason == SIGTERM:
            raise Stopped(f"{view.name} was stopped by SIGTERM; the others go on")
        watch.check()
    return RunResult(
        mode=config.mode, task=view.name, rows_trained=progress.rows,
        examples_per_second=progress.examples_per_second,
    )  # fmt: skip


class _StopAfterOthers(StopHook):
    """Goes on for some seconds after SIGTERM, until the training is over.

    Where all are stopped at once the chief may be in a step that needs this task's part.
    """

    def __init__(self, request: StopRequest, over: Callable[[], bool]):
        super().__init__(request)
        self._stopped, self._over = request, over
        self._since: Optional[float] = None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._stopped.reason == SIGTERM and not self._over():
            self._since = time.monotonic() if self._since is None else self._since
            if time.monotonic() - self._since < _LAST_STEPS:
                return
        super().after_run(run_context, run_values)


def _next_session(
    view: ClusterView,
    marks: Marks,
    last: Optional[dict[str, Any]],
    seconds: float,
    over: Callable[[], bool],
) -> Optional[dict[str, Any]]:
    """Waits for a session of the chief, another one than the last; None where the end comes first.

    Raises:
      tf.errors.UnavailableError: there is no first one in time.
    """
    found: list[dict[str, Any]] = []

    def missing() -> list[str]:
        ready = marks.look("ready")
        if ready is not None and ready["id"] != (last or {}).get("id"):
            found.append(ready)
        return [] if found else [f"chief:0 at {view.chief}"]

    if last is None:
        wait_until(missing, what="the first session of", this=view.name, seconds=seconds, over=over)
    else:
        while not over() and missing():
            threading.Event().wait(_LOOK)
    return found[0] if found else None


def _train(
    config: ExperimentConfig,
    spec: FeatureSpec,
    model: ModelFn,
    view: ClusterView,
    hooks: list[Any],
    request: StopRequest,
    marks: Marks,
    strategy: Any,
    ready: dict[str, Any],
    ended: Callable[[], bool],
) -> Optional[str]:
    """Trains to the end of the shard; the id of the chief's session with which it came there."""
    team = Team.of(config, view, len(all_reduce.devices(config)))
    source = TrainingInput.of(config, spec, team)
    screened = bad_data.screen(config, spec, {source.flag: source.files})
    source = source.without_bad(screened)
    check_records(spec, source.files, source.flag, source.damaged)

    def attempt(session: OneSession) -> None:
        assert config.model_dir is not None
        step = reading.latest_step(config.model_dir) or 0
        skip_rows, counts = source.own_skip(source.position(step)), None
        if skip_rows or source.must_be_counted:
            counts = source.count(epochs=config.epochs, skip_rows=skip_rows)
        marks.write(f"joined-{view.name}")
        input_fn = source.input_fn(skip_rows=skip_rows, counts=counts)
        if strategy is not None:
            # All end with one step, and the chief has found out which.
            collective.train(
                config, view, strategy, model, input_fn, max_steps=int(ready["max_steps"]),
                hooks=[*hooks, session], over=lambda: request.reason is not None,
                ended=ended,
            )  # fmt: skip
            return
        trainer.cluster_estimator(config, model, view).train(
            input_fn, max_steps=config.max_steps, hooks=[*hooks, session]
        )

    def session_of_chief() -> Optional[str]:
        return (marks.look("ready") or {}).get("id")

    with explained(spec, source.files, damaged=screened.damaged, model=model):
        if strategy is not None:
            attempt(OneSession())
            return str(ready["id"])
        through = trainer.keep_training(
            config, view, attempt, lambda: request.reason is not None, session_of_chief
        )
    return (through.of or str(ready["id"])) if through is not None else None
