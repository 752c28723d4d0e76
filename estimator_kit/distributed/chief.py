"""The life of the chief beside what it does as a training in one process does.

It removes the marks of former starts, saves checkpoints, stays until the workers have trained to
their ends, and says that training is over. What it writes in the model directory nobody else does:
checkpoints, the record of the run, `input.json`, `result.json`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimator_kit import exit_codes
from estimator_kit.checkpoints import reading
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.distributed import collective, servers, trainer
from estimator_kit.distributed import marks as mark_names
from estimator_kit.distributed.marks import Marks
from estimator_kit.distributed.trainer import OneSession
from estimator_kit.distributed.waiting import reachable
from estimator_kit.distributed.watch import Watch
from estimator_kit.errors import ConfigError, NothingToDo, Stopped
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.result import RunResult
from estimator_kit.result_file import read_result, write_result
from estimator_kit.training.hooks.saving import SaverHook
from estimator_kit.training.hooks.stop import EARLY_STOPPED, SIGTERM, StopRequest
from estimator_kit.training.run_config import make_run_config
from estimator_kit.training.team import needs_all_workers

_log = logging.getLogger("estimator_kit")

# Seconds in which an evaluator that was there before this start says that it is there still.
# A shared file system may tell of a file only when half a minute has gone.
_EVALUATOR_SAYS = 60.0

# Seconds after which a worker that had trained, and cannot be reached, is not waited for.
_GONE = 30.0


class Chief:
    """The chief of a cluster.

    Args:
      config, view: of the task.
      request: where an early stop, which the evaluator asks for, is noted.
    """

    def __init__(self, config: ExperimentConfig, view: ClusterView, request: StopRequest):
        assert config.model_dir is not None
        self._config, self._view, self._request = config, view, request
        self._marks = Marks(config.model_dir)
        self._all_reduce = config.strategy == "multi_worker_mirrored"
        self._strategy: Any = None
        self._had_evaluator = False
        self._scored_by = mark_names.CHIEF
        self._session = ""

    @contextlib.contextmanager
    def announcing_the_end(self) -> Iterator[None]:
        """Starts the server, and says at the end of the block that training is over, and how.

        Not after an error that may pass: the chief is then started again, and others wait for it.
        Nor where the server did not start: it may be a second chief, started by mistake, or one
        whose name is not known yet, and the others' training is not over by that.
        """
        status, reason, started, told = mark_names.DONE, "", False, False
        try:
            if self._all_reduce:
                if not reachable(self._view.chief):  # Or else it is a second chief, by mistake.
                    self._marks.remove("ready")
                self._strategy = collective.start_server(self._config, self._view)
            else:
                servers.start(self._config, self._view)
            started = True
            yield
            told = True
        except NothingToDo:
            # Others that were started with it wait for no more than what the mark says.
            result = read_result(self._config.model_dir or "") or {}
            if self._config.mode == "train_and_evaluate" and not result.get("metrics"):
                self._scored_by = mark_names.EVALUATOR  # It was to, and is not through.
            raise
        except (Stopped, KeyboardInterrupt):
            status = mark_names.STOPPED
            raise
        except BaseException as error:
            status, reason = mark_names.FAILED, str(error)[:500]
            if exit_codes.exit_code(error) == exit_codes.TEMPORARY:
                status = ""
            raise
        finally:
            if status and started:
                assert self._config.model_dir is not None
                # An error that is under way says more.
                with contextlib.nullcontext() if told else contextlib.suppress(Exception):
                    step = reading.latest_step(self._config.model_dir)
                    self._marks.write(
                        "end", status=status, reason=reason, global_step=step,
                        goal=mark_names.goal_of(self._config), scored_by=self._scored_by,
                    )  # fmt: skip

    @contextlib.contextmanager
    def heeding_the_evaluator(self) -> Iterator[None]:
        """While the block runs, an evaluator can ask for an early stop."""
        closed = threading.Event()

        def look() -> None:
            while not closed.wait(0.5):
                # A storage that does not answer now may do so at the next look.
                with contextlib.suppress(tf.errors.OpError, OSError, ConfigError):
                    if self._marks.read("stop") is not None and self._request.reason is None:
                        self._request.ask(EARLY_STOPPED)

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            closed.set()
            thread.join()

    def begin(self) -> None:
        """Removes the marks of former starts; all checks are through."""
        self._had_evaluator = self._marks.read(mark_names.EVALUATOR) is not None
        self._marks.clear()

    def leaves_evaluation(self) -> bool:
        """Whether an evaluator scores the last checkpoint and writes the exports.

        One that TF_CONFIG names does, and is started again where it has failed. Another one has to
        be there at the end: its mark is taken away, and it sets it anew.
        """
        evaluator = mark_names.EVALUATOR
        if not self._view.evaluators:
            known = self._marks.look(evaluator) is not None or self._had_evaluator
            self._marks.remove(evaluator)
            end = time.monotonic() + (_EVALUATOR_SAYS if known else 0)
            while self._marks.look(evaluator) is None:
                if time.monotonic() >= end:
                    if known:
                        _log.warning("the evaluator is gone; chief:0 scores the last checkpoint")
                    return False
                threading.Event().wait(0.25)
        self._scored_by = evaluator
        return True

    def train(
        self,
        model: ModelFn,
        make_input: Callable[[], Any],
        *,
        max_steps: int,
        hooks: Sequence[Any],
        saving_listeners: Sequence[Any],
    ) -> None:
        """Trains to a global step, or to the end of the input of all.

        Args:
          model: the model_fn.
          make_input: the input_fn from the last checkpoint on.
          max_steps: the global step.
          hooks, saving_listeners: as of `Estimator.train`.
        """

        if self._all_reduce:
            self._marks.write("ready", max_steps=max_steps)
            collective.train(
                self._config, self._view, self._strategy, model, make_input(),
                max_steps=max_steps, hooks=[SaverHook(make_run_config(self._config)), *hooks],
                over=lambda: self._request.reason is not None,
            )  # fmt: skip
            return

        def attempt(session: OneSession) -> None:
            trained = trainer.cluster_estimator(self._config, model, self._view)
            saver = LastToSave(trained.config, lambda step: self._are_done(step, max_steps))
            trained.train(
                make_input(), max_steps=max_steps,
                hooks=[saver, *hooks, session, _AfterSession(self._say_ready)],
                saving_listeners=list(saving_listeners),
            )  # fmt: skip

        self._gone: dict[str, float] = {}
        with Watch(
            self._view, self._marks, seconds=self._config.cluster_timeout_secs,
            goal=mark_names.goal_of(self._config), on_end=self._say_given_up, leaves=True,
            request=self._request, workers_needed=needs_all_workers(self._config),
        ):  # fmt: skip
            through = trainer.keep_training(
                self._config, self._view, attempt, lambda: self._request.reason == SIGTERM
            )
        if through is None:
            _log.warning(
                "stopped by SIGTERM when a server was gone: what was trained after the last "
                "checkpoint is lost"
            )

    def _say_given_up(self) -> None:
        """Notes that others are gone; the process may have to be ended before it can say so."""
        assert self._config.model_dir is not None
        error = f"a task was gone for {self._config.cluster_timeout_secs:g} seconds"
        step = reading.latest_step(self._config.model_dir)
        result = RunResult(
            mode=self._config.mode, status="failed", global_step=step, error=error,
            task=self._view.name,
        )  # fmt: skip
        write_result(result, self._config.model_dir)

    def _say_ready(self) -> None:
        self._session = self._marks.write("ready")

    def _has_ended(self, worker: str) -> bool:
        """Whether a worker has trained to its end, and nothing of that was lost since."""
        return (self._marks.look(f"ended-{worker}") or {}).get("of") == self._session

    def _are_done(self, step: int, max_steps: int) -> bool:
        """Whether no step of a worker is to come that would have to be saved."""
        if step >= max_steps or self._request.reason is not None:
            return True
        waiting = []
        for name, address in self._view.tasks():
            if not name.startswith("worker:") or self._has_ended(name):
                continue
            if reachable(address):
                self._gone.pop(name, None)
                waiting.append(name)
                continue
            since = self._gone.setdefault(name, time.monotonic())
            joined = self._marks.look(f"joined-{name}") is not None
            if time.monotonic() - since < (_GONE if joined else self._config.cluster_timeout_secs):
                waiting.append(name)
            elif self._gone[name] > float("-inf"):
                _log.warning(
                    "%s cannot be reached and is not waited for; rows of its shard were not "
                    "trained on", name,
                )  # fmt: skip
                self._gone[name] = float("-inf")
        return not waiting


class _AfterSession(tf.compat.v1.train.SessionRunHook):
    """Calls a function when there is a session, whose variables have values."""

    def __init__(self, call: Callable[[], None]):
        self._call = call

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._call()


class LastToSave(SaverHook):
    """Saves checkpoints, the last one when the workers' last steps are made, too.

    With finite input the chief may come to the end of its shard before others do; a saver that ends
    with it would lose their steps.

    Args:
      run_config: as of the base class.
      are_done: whether no further step is to come, given the global step.
    """

    def __init__(self, run_config: Any, are_done: Callable[[int], bool]):
        super().__init__(run_config)
        self._are_done = are_done

    def end(self, session: Any) -> None:
        said = False
        while True:
            step = int(session.run(self._global_step_tensor))
            if self._are_done(step):
                break
            if not said:
                said = True
                _log.info("chief:0 has read its shard; waiting for the workers")
            if self._timer.should_trigger_for_step(step):
                self._timer.update_last_triggered_step(step)
                self._save(session, step)
            threading.Event().wait(0.25)
        super().end(session)
