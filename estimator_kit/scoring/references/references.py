"""`--reference_models`: how good a trained model is, compared with simple models on the same rows.

    compare(spec, export, train_files, eval_files, ["constant", "boosted_trees"])

The reference models learn from the rows of the training files, without --keep_negatives, and both
are judged on the rows of the evaluation. They are never part of the model, and begin when its
training has ended. What fails is named in the result, and never fails the training.

The cost is bounded: up to `MOST_ROWS` training rows and `MOST_EVAL_ROWS` evaluation rows are used,
and fewer training rows if columns and classes would make more than `MOST_CELLS` numbers of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from estimator_kit.model.heads import CODE
from estimator_kit.result import ComparedObjective, ReferenceModel, ReferenceModels
from estimator_kit.scoring import measured
from estimator_kit.scoring.references import models, rows
from estimator_kit.scoring.references.comparison import Judge
from estimator_kit.scoring.references.models import MODELS, Problem
from estimator_kit.scoring.references.rows import Table
from feature_specs.spec import FeatureSpec
from input_pipelines.record_files import tfrecords

_log = logging.getLogger("estimator_kit")

MOST_ROWS = 200_000
MOST_EVAL_ROWS = 100_000
MOST_CELLS = 5_000_000
_LEAST_ROWS = 5_000
_LONGEST_ERROR = 500


def compare(
    spec: FeatureSpec,
    export: str,
    train_files: Sequence[str],
    eval_files: Sequence[str],
    names: Sequence[str],
    *,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    eval_rows: Optional[int] = None,
) -> ReferenceModels:
    """Trains reference models, and compares a model with them.

    Args:
      spec: the feature spec.
      export: the SavedModel of the model.
      train_files, eval_files: TFRecord files.
      names: names of `MODELS`.
      damaged: the files of which only the good records are read.
      eval_rows: how many rows the evaluation reads, the first ones; None for all.
    """
    begin = time.monotonic()
    problems = {name: problem_of(spec, name) for name in spec.objectives}
    compared = [name for name, problem in problems.items() if problem is None]
    left_out = {n: ComparedObjective(error=p) for n, p in problems.items() if p is not None}
    if not compared:
        return ReferenceModels(objectives=left_out)
    groups = [group for n in compared if (group := spec.objectives[n].group) is not None]
    evaluated = rows.sampled(
        spec,
        eval_files,
        most=MOST_EVAL_ROWS,
        damaged=damaged,
        group=groups[0] if groups else None,
        first=eval_rows,
    )
    train = rows.sampled(spec, train_files, most=_most_rows(spec, compared), damaged=damaged)
    outputs = {name: _output(spec, name) for name in compared}
    ask = measured.asker(spec, export, compared, outputs=outputs)
    predictions = ask(np.array(evaluated.records, object))
    tables = [rows.read(spec, sample.records, compared) for sample in (train, evaluated)]
    with models.one_thread():
        objectives = {
            name: _compared(spec, name, names, tables[0], tables[1], predictions[name])
            for name in compared
        }
    return ReferenceModels(
        export=export,
        train_rows=len(train.records),
        train_rows_of=train.of,
        eval_rows=len(evaluated.records),
        eval_rows_of=evaluated.of,
        seconds=round(time.monotonic() - begin, 1),
        objectives={name: {**objectives, **left_out}[name] for name in spec.objectives},
    )


def problem_of(spec: FeatureSpec, objective: str) -> Optional[str]:
    """Why an objective has no reference models, as a sentence; None if it has."""
    entry = spec.objectives[objective]
    if entry.head not in models.CLASSES | models.NUMBERS:
        heads = ", ".join(sorted(models.CLASSES | models.NUMBERS))
        return f"The head {entry.head} has no reference models. These have: {heads}."
    if entry.steps_in_row is not None or entry.learns_vectors or entry.label_parts:
        return "Only objectives with one label in a row have reference models."
    if entry.classes is not None and entry.classes > models.MOST_CLASSES:
        return f"Reference models learn up to {models.MOST_CLASSES} classes, got {entry.classes}."
    return None


def _most_rows(spec: FeatureSpec, objectives: Sequence[str]) -> int:
    """How many training rows keep the cost of trees in bounds."""
    columns = 2 * len(rows.times_of(spec))
    for name in rows.names_of(spec):
        feature = spec.features[name]
        columns += 2 if feature.variable or feature.dtype == "int64" else feature.length
    trees = max(_trees(spec.objectives[name]) for name in objectives)
    return min(MOST_ROWS, max(_LEAST_ROWS, MOST_CELLS // max(1, columns * trees)))


def _trees(entry: Any) -> int:
    """The number of trees in each iteration."""
    return 1 if entry.classes is None or entry.classes == 2 else int(entry.classes)


def _output(spec: FeatureSpec, objective: str) -> str:
    """The output of an export that is compared."""
    entry = spec.objectives[objective]
    output = CODE[entry.head].logits_output if entry.answer is None else entry.answer.output
    return f"{objective}/{output}"


def _compared(
    spec: FeatureSpec,
    objective: str,
    names: Sequence[str],
    train: Table,
    evaluated: Table,
    predictions: Any,
) -> ComparedObjective:
    entry = spec.objectives[objective]
    judge = Judge(entry, evaluated.targets[objective])
    problem: Optional[Problem] = None
    references = {}
    for name in names:
        begin = time.monotonic()
        _log.info("training the reference model %s for %s", name, objective)
        try:
            if MODELS[name].needs_library:
                models.check_installed()
            if problem is None:
                problem = Problem.of(entry.head, entry.classes, objective, train, evaluated)
            outputs = MODELS[name].predict(problem)
            found, verdict = judge.compare(predictions, outputs)
            references[name] = ReferenceModel(
                metrics=judge.values(outputs),
                difference=found.estimate,
                low=found.low,
                high=found.high,
                verdict=verdict,
                seconds=round(time.monotonic() - begin, 1),
            )
        except Exception as error:  # Never fails the training.
            references[name] = ReferenceModel(error=text_of(error))
    return ComparedObjective(
        metric=judge.metrics[0].name,
        larger_is_better=judge.metrics[0].larger_is_better,
        model=judge.values(predictions),
        references=references,
    )


def text_of(error: Exception) -> str:
    """The text of an error for `result.json`."""
    return f"{type(error).__name__}: {str(error)[:_LONGEST_ERROR]}"
