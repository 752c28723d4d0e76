"""Compares a training with reference models at its end, for `--reference_models`."""

from __future__ import annotations

import logging

from estimator_kit.config.areas.data import TEST
from estimator_kit.config.areas.exports import Exports
from estimator_kit.config.modes import Train
from estimator_kit.result import ReferenceModels, RunResult, read_result, result_path
from estimator_kit.scoring.references import references
from estimator_kit.training import bad_data
from estimator_kit.training.eval_input import FLAG, all_paths, flag_of
from feature_specs.spec import FeatureSpec
from input_pipelines.reading import files

_log = logging.getLogger("estimator_kit")


def missing(exports: Exports, result: RunResult) -> bool:
    """Whether the result of a finished training lacks a reference model of the flag."""
    compared = result.reference_models
    if result.export_path is None:
        return False
    if compared is None or compared.error is not None or compared.export != result.export_path:
        return True
    objectives = [entry for entry in compared.objectives.values() if entry.error is None]
    return any(
        {*exports.reference_models}
        - {n for n, reference in entry.references.items() if not reference.error}
        for entry in objectives
    )


def compare(command: Train, spec: FeatureSpec, result: RunResult) -> RunResult:
    """The result with its comparison, which `result.json` gets too. Never fails."""
    try:
        compared = _compared(command, spec, result)
    except Exception as error:
        compared = ReferenceModels(export=result.export_path, error=references.text_of(error))
    model_dir = command.run.model_dir
    # In a cluster, another task may have written the file since.
    kept = read_result(model_dir) or result
    kept.model_copy(update={"reference_models": compared}).save(result_path(model_dir))
    return result.model_copy(update={"reference_models": compared})


def _compared(command: Train, spec: FeatureSpec, result: RunResult) -> ReferenceModels:
    assert result.export_path is not None
    data = command.data
    for flag, value in (("--input_fn", data.input_fn), ("--train_mix", data.train_mix)):
        if value:
            text = f"They read the rows of --train_files, and this training has {flag}."
            return ReferenceModels(export=result.export_path, error=text)
    _log.info("comparing with reference models: %s", ", ".join(command.exports.reference_models))
    # The rows that judge have also chosen the export, which would help the model.
    judged = flag_of(TEST) if TEST in data.other_sets else FLAG
    train_files = files.expand(data.train_files, flag="--train_files", days=data.days_of("train"))
    eval_files = all_paths(command.program, data, spec)[judged]
    paths = {"--train_files": train_files, judged: eval_files}
    screened = bad_data.screen(command.program, command.reading, spec, paths)
    reading = command.reading
    compared = references.compare(
        spec,
        result.export_path,
        screened.files["--train_files"],
        screened.files[judged],
        command.exports.reference_models,
        damaged=screened.damaged,
        eval_rows=reading.eval_steps and reading.eval_steps * reading.eval_batch_size,
    )
    return compared.model_copy(update={"eval_set": judged})
