"""A training, from its config to `result.json`, in five stages:

  1. check   compares flags, files, model and checkpoint with each other;
  2. plan    counts rows, and computes the first and the last step. Up to here nothing is written;
  3. begin   writes to the model directory what a later start needs: the run record, `input.json`,
             `bad_data.json`, and a `result.json` with the status `running`;
  4. train   the trainer runs the steps, saves checkpoints, and evaluates and exports them;
  5. finish  evaluates the last checkpoint if that is still to do, and writes the final export.

However stages 4 and 5 end, `result.json` reports it. Clusters differ only in the `Trainer` that is
passed in; no stage asks which one it is.

The length of a training is always a number of steps; epochs are turned into steps by counting rows.
So a run that was killed and started again ends at the same step, and reads the same rows
(`position`), as a run that was not killed.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Optional

from estimator_kit.checkpoints import model_outline, reading, run_record
from estimator_kit.checkpoints.model_outline import ModelOutline
from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.checkpoints.warm_start.warm_start import WarmStart
from estimator_kit.config.areas.exports import metric_of
from estimator_kit.config.modes import Train
from estimator_kit.embeddings import growing_ids
from estimator_kit.errors import ConfigError, Stopped
from estimator_kit.exporters.signatures import check_default
from estimator_kit.model import pretrained_tables
from estimator_kit.model.computing import Computing
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.session_errors import explained
from estimator_kit.observing.histories import EvaluationHistory, TrainingLog
from estimator_kit.observing.tensorboard import summaries
from estimator_kit.optimizers import gradient_changes
from estimator_kit.result import (
    ALREADY_DONE,
    EARLY_STOPPED,
    HOOK,
    INPUT_EXHAUSTED,
    SIGTERM,
    RunResult,
    result_path,
)
from estimator_kit.tf_estimator import estimator
from estimator_kit.training import (
    bad_data,
    catalogues,
    data_service,
    input_cache,
    model_dir_lock,
    run_config,
    unfinished,
)
from estimator_kit.training.after_evaluation import AfterEvaluation
from estimator_kit.training.eval_input import EvalInput, all_paths
from estimator_kit.training.hooks.profile import Profile
from estimator_kit.training.hooks.progress import PauseAtSave, ProgressHook
from estimator_kit.training.hooks.stop import StopHook, stop_on_sigterm
from estimator_kit.training.hooks.summaries import SummariesHook, TrainingLogHook, WriteAtSave
from estimator_kit.training.plan import (
    Plan,
    check_apart,
    check_metrics,
    check_start,
    find_warm_start,
    has_stalled_before,
    is_unfinished,
    make_plan,
    trained_before,
)
from estimator_kit.training.source import TrainingInput
from estimator_kit.training.trainer import Steps, Trainer, selected_rows
from feature_specs.spec import FeatureSpec
from input_pipelines.row_cache.cache import RowCache

_log = logging.getLogger("estimator_kit")

# How many characters of an error result.json stores. TensorFlow's errors can have pages of graph.
_LONGEST_ERROR = 2000


class Training:
    """One start of a training. It goes on from the latest checkpoint of the model directory.

    Args:
      config, spec, model: what is trained.
      trainer: runs the steps.

    The attributes are declared in the order of the stages that set them.
    """

    # Set by check.
    _source: TrainingInput
    _eval_input: Optional[EvalInput]  # None if nothing is evaluated.
    _scores_meaning: Optional[ScoresMeaning]  # None if nothing is evaluated.
    _screened_files: bad_data.Screened
    _outline: ModelOutline
    _start_step: Optional[int]
    _warm_start: Optional[WarmStart]
    # Set by plan.
    _plan: Plan
    _finished_result: Optional[RunResult]  # The result of a start that has left nothing to train.
    _was_stopped_early: bool  # Whether an earlier start has stopped early, but not ended.
    _unfinished: bool  # Whether an earlier start has not evaluated or exported its checkpoint.
    # Set by begin.
    _after_evaluation: AfterEvaluation
    _progress: ProgressHook
    _profile: Optional[Profile]
    _estimator: Any
    _result: RunResult
    # Set while train and finish run.
    _cache: Optional[RowCache]

    def __init__(self, command: Train, spec: FeatureSpec, model: ModelFn, trainer: Trainer):
        self._command, self._spec, self._model, self._trainer = command, spec, model, trainer
        self._model_dir = command.run.model_dir
        self._evaluates = command.program.mode == "train_and_evaluate"

    def run(self) -> RunResult:
        """Runs all stages.

        Raises:
          NothingToDo: an earlier start has trained and evaluated to the end. Nothing was changed.
          Stopped: the process received SIGTERM, or a hook of the model stopped the training. A
            checkpoint is saved.
          DataError, LossError, CheckpointError, ConfigError: see their docstrings.
        """
        with self._trainer.announcing_the_end():
            self.check()
            self.plan()
            with model_dir_lock.lock(self._model_dir, resumed_at=self._plan.resumed_at):
                self.begin()
                with self._reporting(), self._at_work():
                    self.train()
                    self.finish()
        return self._result

    def check(self) -> None:
        """Checks that flags, files, model and checkpoint fit together. Writes nothing."""
        spec = self._spec
        if self._command.service.data_service is not None:
            data_service.check_process()
        source = TrainingInput.of(self._command, spec, self._trainer.team)
        eval_files = (
            all_paths(self._command.program, self._command.data, spec) if self._evaluates else {}
        )
        for flag, paths in eval_files.items():
            check_apart(source.files, paths, flag)
        is_mix = bool(self._command.data.train_mix)
        input_cache.check(self._command.reading, spec, mixed=is_mix, negatives=source.negatives)
        model_dir_lock.check_folder(self._model_dir)
        self._model.computing = Computing.of(self._command.training)
        if self._command.training.mixed_precision is not None:
            run_config.warn_of_slow_precision(self._command.training.mixed_precision)
        files = {source.flag: source.files, **eval_files}
        self._screened_files = bad_data.screen(
            self._command.program, self._command.reading, spec, files
        )
        if self._evaluates:
            train_files = source.without_bad(self._screened_files).files
            catalogues.read(self._command, spec, self._model, train_files, self._screened_files)
        self._outline = model_outline.outline(self._model)
        check_metrics(
            self._command.program, self._command.training, self._command.exports, self._outline
        )
        if self._evaluates and self._command.exports.exporters:
            check_default(self._command.exports.default_signature, self._model)
            if self._outline.not_exportable is not None:
                raise ConfigError(
                    f"{self._outline.not_exportable} To train without exports, remove --exporters."
                )
        self._start_step = check_start(self._command.run, spec, self._model, self._outline)
        self._warm_start = None
        if self._start_step is None:
            self._warm_start = find_warm_start(
                self._command.training,
                self._command.warm_start,
                spec,
                self._model.params,
                self._outline,
            )
        self._source = source.without_bad(self._screened_files)
        self._eval_input = self._scores_meaning = None
        if self._evaluates:
            self._eval_input = eval_input = EvalInput.of(self._command, spec, self._screened_files)
            self._scores_meaning = ScoresMeaning.of(
                self._command, spec, self._model, eval_input.files, eval_input.left_out
            )

    def plan(self) -> None:
        """Computes the first and the last step. Writes nothing.

        With the plan, it waits for the workers of a data service, and checks pretrained tables.
        """
        first_step = self._warm_start.step if self._warm_start is not None else 0
        self._plan = make_plan(self._command.training, self._source, self._start_step, first_step)
        self._command = self._trainer.settle(self._plan)
        self._finished_result = trained_before(
            self._command,
            self._spec,
            self._model,
            self._plan,
            self._scores_meaning,
            self._eval_input,
        )
        # In a cluster, the evaluator asks again.
        alone = self._evaluates and not self._trainer.shared
        self._unfinished = alone and is_unfinished(self._command.run, self._plan)
        self._was_stopped_early = alone and has_stalled_before(
            self._command.run, self._command.training, self._plan, self._scores_meaning
        )
        if (
            self._command.service.data_service is not None
            and self._plan.has_steps
            and self._finished_result is None
        ):
            data_service.wait_for_service(self._command.service, self._command.cluster)
        if self._start_step is None:
            restored = self._warm_start.restored if self._warm_start is not None else frozenset()
            pretrained_tables.check(self._spec, self._outline.variables, restored)

    def begin(self) -> None:
        """Writes what a later start needs."""
        eval_input, warm = self._eval_input, self._warm_start
        self._say_length()
        self._model.warm_start = warm
        self._model.last_step = self._plan.max_steps
        if self._evaluates and not self._trainer.shared:  # In a cluster, an evaluator may write.
            EvaluationHistory(self._model_dir).forget_after(self._plan.start_step)
        self._after_evaluation = AfterEvaluation(
            self._command,
            self._spec,
            self._trainer.request,
            eval_input,
            meaning=self._scores_meaning,
        )
        self._profile = Profile.of(self._command.run, self._command.service, self._command.watching)
        self._progress = ProgressHook(
            self._plan.max_steps,
            every_secs=self._command.program.log_every_secs,
            shared=self._trainer.shared,
        )
        self._trainer.begin()
        if self._start_step is not None and self._trains:
            run_record.say_changes(self._command, self._spec, self._model, self._start_step)
        if self._scores_meaning is not None:
            self._scores_meaning.begin(self._model_dir)
        if self._finished_result is not None:
            # `write_record` is next, and hides changed outputs from a later start.
            unfinished.begin_work(self._model_dir, self._plan.start_step)
        self._result = RunResult(
            mode=self._command.program.mode, status="running", bad_data=self._screened_files.counts
        )
        self._result.save(result_path(self._model_dir))
        run_record.write_record(self._command, self._spec, self._outline.places)
        run_record.write_params(self._model_dir, self._model.params)
        catalogues.store(self._model, self._model_dir)
        self._plan.position.write(self._model_dir, self._command.training.epochs)
        self._screened_files.write(self._model_dir)
        if warm is not None:
            _log.info(warm.table())
            warm.write_report(self._model_dir)
        self._estimator = self._trainer.estimator(self._model)

    def _say_length(self) -> None:
        """Logs how many steps the training has, and warns if they are few."""
        plan, training = self._plan, self._command.training
        if not self._trains:
            return
        at_most = "at most " if training.early_stopping_metric is not None else ""
        length = f"training: {at_most}{plan.max_steps - plan.start_step:,} steps"
        if plan.start_step:
            length += f", from {plan.start_step:,} to {plan.max_steps:,}"
        if training.epochs is not None and plan.rows is not None:
            length += f", {plan.rows:,} rows in {training.epochs} epoch"
            length += "s" if training.epochs != 1 else ""
        if training.early_stopping_metric is not None:
            every = training.save_checkpoints_steps
            length += (
                f". It ends earlier when {metric_of(training.early_stopping_metric)} has not "
                f"improved in {training.early_stopping_patience} evaluations"
            )
            length += f", one every {every:,} steps" if every is not None else ""
        _log.info("%s", length)
        if self._warm_start is None:
            few = growing_ids.warnings(self._spec, self._plan.max_steps)
            for warning in filter(None, (self._plan.warning(), *few)):
                _log.warning("%s", warning)

    def train(self) -> None:
        """Trains to the last step of the plan, and counts the rows.

        Before that, it evaluates and exports the checkpoint that an earlier start has left.
        """
        plan, request = self._plan, self._trainer.request
        if self._unfinished:
            _log.info("step %d: an earlier start left its evaluation or exports", plan.start_step)
            self._evaluate()
            if self._trains:
                unfinished.end_work(self._model_dir)
            request.check()
        if self._finished_result is not None or not plan.has_steps:
            before = self._finished_result or RunResult(mode=self._command.program.mode)
            early = before.stop_reason == EARLY_STOPPED
            reason = EARLY_STOPPED if early else ALREADY_DONE
            self._set_result(stop_reason=reason, rows_lost=before.rows_lost)
            return
        if self._was_stopped_early or request.reason == EARLY_STOPPED:
            self._set_result(stop_reason=EARLY_STOPPED)
            return
        try:
            self._trainer.train(self._steps())
        finally:
            self._set_result(rows_trained=self._progress.rows)
        request.check()
        step = reading.latest_step(self._model_dir) or 0
        if request.reason is None and request.of_a_hook and step < plan.max_steps:
            request.ask(HOOK)
            raise Stopped(
                f"{type(self._model).__name__}.hooks: a hook asked to stop the training at step "
                f"{step} of {plan.max_steps}. The checkpoint is saved, and the same command goes "
                "on. To end a training early for good, use --max_steps or --early_stopping_metric."
            )
        early = request.reason == EARLY_STOPPED and step < plan.max_steps
        reason = EARLY_STOPPED if early else plan.stop_reason
        self._set_result(stop_reason=reason)
        trained, lost = self._trainer.rows(
            self._source,
            plan,
            read=self._progress.rows,
            step=step,
            exhausted=reason == INPUT_EXHAUSTED,
        )
        self._set_result(
            rows_trained=max(0, trained - self._warn_of_waiting_rows()), rows_lost=lost
        )

    def _warn_of_waiting_rows(self) -> int:
        """Returns how many rows `accumulate` read without a step. Warns if there are any."""
        checkpoint = reading.latest(self._model_dir)
        if self._model.params.accumulate == 1 or checkpoint is None:
            return 0
        batches = gradient_changes.waiting(checkpoint)
        if batches:
            _log.warning(
                "accumulate=%d: training ended before its next step. The gradients of the last %d "
                "batches are in the checkpoint, but they have not changed the model.",
                self._model.params.accumulate,
                batches,
            )
        return batches * self._command.training.batch_size

    def finish(self) -> None:
        """Evaluates the last checkpoint if that is still to do, and writes the final export."""
        if self._eval_input is None:
            return
        if self._trainer.leaves_evaluation():
            _log.info("the evaluator scores the last checkpoint and writes the exports")
            return
        after = self._after_evaluation
        after.read_records()
        if self._finished_result is not None:
            after.recall(self._plan.start_step)
        unfinished.begin_work(self._model_dir, reading.latest_step(self._model_dir) or 0)
        if not after.is_of_latest():
            self._evaluate()
        elif self._finished_result is not None or (self._unfinished and not self._trains):
            after.export_again(self._estimator)
        after.finish(self._estimator)

    @property
    def _trains(self) -> bool:
        return (
            self._finished_result is None and self._plan.has_steps and not self._was_stopped_early
        )

    def _evaluate(self) -> None:
        """Evaluates and exports the latest checkpoint, as far as no earlier start has done it."""
        checkpoint = reading.latest(self._model_dir)
        assert checkpoint is not None
        after = self._after_evaluation
        after.evaluate(self._estimator, after.reading(self._cache), checkpoint)

    def _steps(self) -> Steps:
        """The steps for the trainer."""
        request = self._trainer.request
        log = TrainingLog(self._model_dir, self._start_step or 0)
        watching = [self._progress, TrainingLogHook(log, self._progress), self._summaries()]
        hooks = [
            *watching,
            StopHook(request),
            *data_service.hooks(self._command.service, self._command.cluster),
        ]
        if self._profile is not None:
            hooks.append(self._profile)
        eval_spec = None
        if self._eval_input is not None:
            eval_spec = estimator.EvalSpec(
                self._after_evaluation.reading(self._cache),
                steps=None,  # Until the input_fn ends. TensorFlow's default is 100 batches.
                start_delay_secs=0,
                throttle_secs=self._command.training.eval_throttle_secs,
                hooks=self._after_evaluation.hooks(),
                exporters=[self._after_evaluation],
            )
        return Steps(
            self._model,
            self._estimator,
            self._input,
            max_steps=self._plan.max_steps,
            hooks=hooks,
            saving_listeners=[PauseAtSave(self._progress), WriteAtSave(log)],
            eval_spec=eval_spec,
        )

    def _summaries(self) -> SummariesHook:
        return SummariesHook(
            self._model_dir,
            self._progress,
            lambda: summaries.values_of_a_start(self._command, self._spec, self._model),
            every_steps=self._command.watching.summary_steps,
            histograms=self._command.watching.histograms,
        )

    @property
    def _reads_alone(self) -> bool:
        """Whether this process reads all rows from files, for one device."""
        command = self._command
        is_single = command.cluster.strategy is None and not self._trainer.shared
        from_files = command.service.data_service is None and command.data.input_fn is None
        return is_single and from_files

    def _input(self) -> Any:
        """The input_fn from the last checkpoint on. In a cluster this start may have saved it."""
        step = reading.latest_step(self._model_dir)
        planned = self._plan.position
        position = planned if step is None else planned.at(step)
        counts = self._plan.counts
        if (
            position != planned
            and self._source.negatives is not None
            and not self._command.training.epochs
        ):
            counts = None  # The plan has counted only as many epochs as it needed.
        return self._source.input_from(position, counts=counts, cache=self._cache)

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """Handles SIGTERM, keeps the row cache open, and explains TensorFlow's errors."""
        request = self._trainer.request
        files = [*self._source.files, *(self._eval_input.all_files if self._eval_input else ())]
        steps = self._plan.max_steps - self._plan.start_step
        damaged = self._screened_files.damaged
        with (
            stop_on_sigterm(request),
            input_cache.opened(
                self._command.reading,
                self._spec,
                mixed=bool(self._command.data.train_mix),
                negatives=self._source.negatives,
                is_alone=self._reads_alone,
                rows=steps * self._command.training.batch_size,
            ) as cache,
            data_service.naming_the_service(self._command.service, self._command.cluster),
            explained(self._spec, files, damaged=damaged, model=self._model, cache=cache),
            self._source.naming_problems(),
        ):
            self._cache = cache
            yield

    def _set_result(self, **parts: Any) -> None:
        """Sets fields of the result."""
        self._result = self._result.model_copy(update=parts)

    @contextlib.contextmanager
    def _reporting(self) -> Iterator[None]:
        """Writes `result.json` at the end of the block, however it ends."""
        self._cache = None
        self._set_result(status="failed")
        try:
            yield
            self._set_result(status="done")
        except Stopped:
            reason = HOOK if self._trainer.request.reason == HOOK else SIGTERM
            self._set_result(status="stopped", stop_reason=reason)
            raise
        except Exception as error:
            self._set_result(error=f"{type(error).__name__}: {str(error)[:_LONGEST_ERROR]}")
            raise
        finally:
            if self._profile is not None:
                self._profile.close()
                self._set_result(input_profile=self._profile.input, profile=self._profile.ops)
            after = self._after_evaluation
            counts = self._eval_input.counts if self._eval_input is not None else None
            self._set_result(
                global_step=reading.latest_step(self._model_dir),
                **after.of_result(self._result.stop_reason),
                exports=after.exports,
                examples_per_second=self._progress.examples_per_second,
                rows_a_step=self._progress.rows_a_step,
                steps_planned=self._plan.max_steps,
                rows_selected=selected_rows(self._source, self._plan, counts),
                input_cache=input_cache.summary(self._cache),
                task=self._trainer.task,
                scores=self._scores_meaning.digest if self._scores_meaning is not None else None,
            )
            self._result.save(result_path(self._model_dir))
