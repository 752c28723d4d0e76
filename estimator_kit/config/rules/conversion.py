"""Which settings go together in a conversion, for CSV files and for Beam. Imports no TensorFlow."""

from __future__ import annotations

from estimator_kit.config.rules import names
from estimator_kit.config.settings import AllSettings
from input_pipelines.prepare.beam import flags


def problems(config: AllSettings) -> list[str]:
    """What does not go together in `--mode=convert`, or wherever tables are read."""
    found = _conversion_problems(config) if config.mode == "convert" else []
    try:
        config.csv_options()
    except ValueError as error:
        found.append(str(error))
    return found + _beam_problems(config)


def _conversion_problems(config: AllSettings) -> list[str]:
    found = []
    if config.split_key is not None and config.eval_fraction is None:
        found.append(
            "--eval_fraction is missing. Say which share of the values of --split_key is for "
            "evaluation, such as 0.1."
        )
    if config.eval_fraction is not None and config.split_key is None:
        found.append(
            "--split_key is missing. Name the column, such as user_id, whose values decide which "
            "rows are for evaluation."
        )
    if config.step_columns and config.spec:
        found.append(
            "--step_columns is for a conversion without --spec. Write feature_list: true in the "
            "spec instead."
        )
    return found + names.problems("step_columns", config.step_columns)


def _beam_problems(config: AllSettings) -> list[str]:
    if config.beam_options is None:
        return []
    found = []
    if config.mode not in ("analyze", "convert"):
        found.append("--beam_options is for --mode=convert and --mode=analyze. Remove it.")
    if config.convert_processes is not None:
        found.append(
            "--convert_processes is for a conversion without --beam_options. Use the flag of the "
            "Beam runner for the number of workers."
        )
    try:
        config.beam_flags()
    except flags.BeamFlagsError as error:
        found.append(f"--beam_options: {error}")
    return found
