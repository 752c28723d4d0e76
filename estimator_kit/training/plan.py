"""The first and the last step of a training, computed before anything is written.

The length of a training is always a number of steps. To turn epochs into steps, the rows are
counted. If several processes train, the shards of all of them are counted.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
from collections.abc import Sequence
from typing import Optional

from estimator_kit.checkpoints import reading, run_record
from estimator_kit.checkpoints.model_outline import ModelOutline
from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.checkpoints.warm_start import warm_start
from estimator_kit.checkpoints.warm_start.warm_start import WarmStart
from estimator_kit.config.areas.exports import Exports, compare_best_metric, metric_of
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.training import Training, steps_between_evaluations
from estimator_kit.config.areas.training import WarmStart as WarmStartSettings
from estimator_kit.config.modes import InFolder, Train
from estimator_kit.errors import CheckpointError, ConfigError, NothingToDo
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.model_params import ModelParams
from estimator_kit.model.session_errors import explained
from estimator_kit.observing.histories import EvaluationHistory
from estimator_kit.result import EARLY_STOPPED, INPUT_EXHAUSTED, MAX_STEPS, RunResult, read_result
from estimator_kit.training import unfinished
from estimator_kit.training.after_evaluation import has_sets
from estimator_kit.training.eval_input import EvalInput
from estimator_kit.training.hooks.stop import stops
from estimator_kit.training.position import InputPosition
from estimator_kit.training.source import TrainingInput
from feature_specs import meaning
from feature_specs.errors import did_you_mean
from feature_specs.spec import FeatureSpec
from input_pipelines.integrity import label_order
from input_pipelines.reading import files
from input_pipelines.reading.selection import RowCounts

_log = logging.getLogger("estimator_kit")


# A training of fewer steps gets a warning.
FEW_STEPS = 200


@dataclasses.dataclass(frozen=True)
class Plan:
    """Where a training starts and ends.

    Attributes:
      start_step: the first global step: the step of the checkpoint that it goes on from, or the
        step that a warm start takes over, else 0.
      resumed_at: the step of the checkpoint that it goes on from, or None.
      max_steps: the global step at which it ends.
      stop_reason: why it ends there.
      counts: the row counts of this process's shard of the training files (one for each part of a
        mix), or None if they were not counted.
      position: where reading continues.
      selected: the row counts of all shards.
      rows: how many rows all shards will read until the epochs end. None without --epochs.
      save_steps: the steps between two checkpoints, if early stopping decides it, else None.
    """

    start_step: int
    max_steps: int
    stop_reason: str
    counts: Optional[list[RowCounts]]
    position: InputPosition
    selected: Sequence[RowCounts] = ()
    rows: Optional[int] = None
    resumed_at: Optional[int] = None
    save_steps: Optional[int] = None

    def applied(self, command: Train) -> Train:
        """The command with the steps between two checkpoints."""
        if self.save_steps is None:
            return command
        saving = {"save_checkpoints_steps": self.save_steps}
        return command.model_copy(update={"training": command.training.model_copy(update=saving)})

    def warning(self) -> Optional[str]:
        """What is wrong with its length, or None."""
        few = self.stop_reason == INPUT_EXHAUSTED and self.max_steps < FEW_STEPS
        if not few:
            return None
        return (
            f"the whole training has {self.max_steps} steps, which is few: most models need some "
            "hundreds. Use a smaller --batch_size or more --epochs."
        )

    @property
    def has_steps(self) -> bool:
        """Whether at least one step is left."""
        return self.start_step < self.max_steps


def check_apart(train_files: list[str], eval_files: list[str], flag: str) -> None:
    """Raises ConfigError if a file is trained on and evaluated; `flag` names the set."""
    shared = files.shared(train_files, eval_files)
    if shared:
        raise ConfigError(
            f"--train_files and {flag} share {len(shared)} files, the first is {shared[0]}. "
            "Use other files for one of them: a model must not be scored on what it was trained on."
        )


def check_metrics(
    program: Program, training: Training, exports: Exports, outline: ModelOutline
) -> None:
    if program.mode != "train_and_evaluate":
        return
    asked = {"early_stopping_metric": training.early_stopping_metric}
    if compare_best_metric(exports.exporter_names):
        asked["best_metric"] = exports.best_metric
    for flag, metric in asked.items():
        if metric is not None and metric_of(metric) not in outline.metrics:
            raise ConfigError(
                f"--{flag}={metric}: the model has no such metric"
                f"{did_you_mean(metric_of(metric), sorted(outline.metrics))}"
            )


def check_start(
    run: InFolder, spec: FeatureSpec, model: ModelFn, outline: ModelOutline
) -> Optional[int]:
    """The step to go on from, or None. Raises an error for a checkpoint that does not fit."""
    checkpoint = reading.latest(run.model_dir)
    if checkpoint is None:
        return None
    run_record.check_spec_unchanged(run.model_dir, spec, outline.places)
    try:
        reading.check_fit(checkpoint, outline.variables)
    except CheckpointError as error:
        other = run_record.other_optimizer(run.model_dir, model.params)
        raise CheckpointError(f"{error}\n{other}" if other else str(error)) from error
    run_record.check_params(run.model_dir, type(model).__name__, model.params)
    return reading.latest_step(run.model_dir)


def find_warm_start(
    training: Training,
    warm_start_settings: WarmStartSettings,
    spec: FeatureSpec,
    params: ModelParams,
    outline: ModelOutline,
) -> Optional[WarmStart]:
    """The plan of the warm start, or None without --warm_start_from."""
    if warm_start_settings.warm_start_from is None:
        return None
    warm = warm_start.plan(
        warm_start_settings.warm_start_from,
        outline,
        spec,
        mode=warm_start_settings.warm_start_mode,
        pattern=warm_start_settings.warm_start_vars,
        renames=warm_start_settings.warm_start_rename,
    )
    folder, counts = os.path.dirname(warm.checkpoint), meaning.WARM_START.aspects
    for change in run_record.params_changes(folder, params, counts):
        _log.warning("warm start: the model uses its variables in another way: %s", change)
    if training.max_steps is not None and warm.step >= training.max_steps:
        raise ConfigError(
            f"--warm_start_mode=all takes over step {warm.step} from {warm.checkpoint}, but "
            f"--max_steps={training.max_steps} is not above it. Raise --max_steps, or use "
            "--warm_start_mode=all_but_step."
        )
    return warm


def make_plan(
    training: Training,
    source: TrainingInput,
    start_step: Optional[int],
    first_step: int,
) -> Plan:
    """Makes the plan. Without a checkpoint (no `start_step`) training starts at `first_step`."""
    start = start_step or 0
    with explained(source.spec, source.files, damaged=source.damaged), source.naming_problems():
        position = source.position(start)
    if start_step is None and first_step:
        start = first_step
        position = position.beginning_at(start)
    first = source.first_records()
    if training.shuffle and first:
        for warning in label_order.warnings(source.spec, first, damaged=source.damaged):
            _log.warning(warning)
    goes_on = start < (training.max_steps or math.inf)
    skips = position.steps_read and goes_on
    each: list[tuple[list[RowCounts], int]] = []
    by_epoch = steps_between_evaluations(training, 1) is not None
    if training.epochs is not None or skips or source.must_be_counted or by_epoch:
        each = _count_team(source, position)
    ends: list[tuple[int, str]] = []
    if training.max_steps is not None:
        ends.append((training.max_steps, MAX_STEPS))
    rows: Optional[int] = None
    if training.epochs is not None:
        end = source.end_of(position, training.epochs, [team_counts for team_counts, _ in each])
        ends.append((end, INPUT_EXHAUSTED))
        rows = sum(
            max(0, sum(part.in_epochs(training.epochs) for part in team_counts) - skip)
            for team_counts, skip in each
        )
    max_steps, reason = min(ends)
    counts = each[0][0] if each else None
    selected = [part for team_counts, _ in each for part in team_counts]
    save_steps = None
    if by_epoch:
        beginning = position.model_copy(update={"whole": (0, 0)})
        an_epoch = source.end_of(beginning, 1, [team_counts for team_counts, _ in each])
        save_steps = steps_between_evaluations(training, an_epoch)
    return Plan(start, max_steps, reason, counts, position, selected, rows, start_step, save_steps)


def _count_team(
    source: TrainingInput, position: InputPosition
) -> list[tuple[list[RowCounts], int]]:
    """The row counts of each shard, and how many rows of it were read; this process's shard first.

    The shards of other processes are left out if the plan does not need them.
    """
    epochs, team = source.command.training.epochs, source.team
    with explained(source.spec, source.files, damaged=source.damaged):
        skip_rows = source.own_skip(position)
        each = [(source.count(epochs=epochs, skip_rows=skip_rows), skip_rows)]
        by_epoch = steps_between_evaluations(source.command.training, 1) is not None
        if epochs is not None or source.must_be_counted or by_epoch:
            others = [source.of_member(i) for i in range(team.size) if i != team.index]
            each += [
                (other.count(epochs=epochs, skip_rows=0), other.own_skip(position))
                for other in others
            ]
    return each


def is_unfinished(run: InFolder, plan: Plan) -> bool:
    """Whether an earlier start was killed while it evaluated or exported the latest checkpoint."""
    before, step = read_result(run.model_dir), unfinished.unfinished_step(run.model_dir)
    is_done = before is not None and before.status == "done"
    return not is_done and step is not None and step == plan.resumed_at


def has_stalled_before(
    run: InFolder, training: Training, plan: Plan, meaning: Optional[ScoresMeaning]
) -> bool:
    """Whether an earlier start was killed after the evaluation with which it stops early."""
    before = read_result(run.model_dir)
    if meaning is None or before is None or before.status == "done":
        return False
    evaluations = EvaluationHistory(run.model_dir).alike(meaning)
    if not evaluations or evaluations[-1].global_step != plan.start_step:
        return False
    return stops(training, evaluations)


def trained_before(
    command: Train,
    spec: FeatureSpec,
    model: ModelFn,
    plan: Plan,
    meaning: Optional[ScoresMeaning],
    eval_input: Optional[EvalInput] = None,
) -> Optional[RunResult]:
    """The result of an earlier start that has left nothing to train, or None.

    Args:
      config, spec, model, plan: what this start trains, and its plan.
      meaning: what the scores of this start mean. None if it evaluates nothing.
      eval_input: what this start evaluates.

    Raises:
      NothingToDo: the earlier start has also evaluated and exported, and its scores and outputs
        mean the same.
    """
    before = read_result(command.run.model_dir)
    if before is None or before.status != "done" or before.global_step != plan.start_step:
        return None
    if before.mode not in (command.program.mode, "train_and_evaluate") or not plan.start_step:
        return None
    measured = meaning is None or meaning.is_of(before.scores)
    if meaning is not None and eval_input is not None:
        measured = measured and has_sets(before.eval_sets, eval_input.scores_of_others(meaning))
    if before.rows_lost and before.steps_planned == plan.max_steps:
        reason = (
            f"{command.run.model_dir} is already trained to the end of its epochs, at step "
            f"{plan.start_step}, except for {before.rows_lost:,} rows that were lost with a "
            "worker. Raise --max_steps or --epochs, or choose another --model_dir."
        )
    elif not plan.has_steps:
        reason = (
            f"{command.run.model_dir} is already trained to step {plan.start_step} of "
            f"{plan.max_steps}. Raise --max_steps or --epochs, or choose another --model_dir."
        )
    elif measured and before.stop_reason == EARLY_STOPPED and _stays(command, meaning):
        reason = (
            f"{command.run.model_dir} was stopped early at step {plan.start_step}. Raise "
            "--early_stopping_patience, or give --epochs and no --early_stopping_..., to go on, or "
            "choose another --model_dir."
        )
    else:
        return None
    if measured:
        outputs = run_record.other_outputs(command, spec, model)
        if not outputs:
            raise NothingToDo(reason)
        _log.info("exports are written again with other outputs: %s", "; ".join(outputs))
    return before


def _stays(command: Train, meaning: Optional[ScoresMeaning]) -> bool:
    """Whether an early stop is one by the settings of this start, too.

    With the same settings it is, even if the last checkpoint, which an evaluator scores after the
    stop, has turned out to be better.
    """
    if meaning is None or command.training.early_stopping_metric is None:
        return False
    names = {
        "early_stopping_metric",
        "early_stopping_patience",
        "early_stopping_min_delta",
    }
    return not run_record.changed_flags(command, names) or stops(
        command.training, EvaluationHistory(command.run.model_dir).alike(meaning)
    )
