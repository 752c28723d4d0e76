"""Which settings go together in a conversion, for CSV files and for Beam. Imports no TensorFlow."""

from __future__ import annotations

from estimator_kit.config.rules import names
from estimator_kit.config.settings import AllSettings
from input_pipelines.prepare import beam_runner
from input_pipelines.prepare.convert.options import DerivedLabel, SequenceOptions


def problems(config: AllSettings) -> list[str]:
    """What does not go together in `--mode=convert`, or wherever tables are read."""
    found = _conversion_problems(config) if config.mode == "convert" else []
    try:
        config.csv_options()
    except ValueError as error:
        found.append(str(error))
    return found + _beam_problems(config)


def _conversion_problems(config: AllSettings) -> list[str]:
    found = _split_problems(config) + _label_problems(config)
    if config.step_columns and config.spec:
        found.append(
            "--step_columns is for a conversion without --spec. Write feature_list: true in the "
            "spec instead."
        )
    found += names.problems("step_columns", config.step_columns)
    return found + _sequence_problems(config)


def _split_problems(config: AllSettings) -> list[str]:
    given = [name for name in ("split_key", "split_rows", "split_time") if getattr(config, name)]
    found = []
    if len(given) > 1:
        names_given = " and ".join(f"--{name}" for name in given)
        found.append(f"{names_given} each decide which rows are for evaluation. Remove one.")
    if config.eval_from is not None and "split_time" not in given:
        found.append("--split_time is missing. Name the column that --eval_from is a value of.")
    elif config.eval_from is not None and config.eval_fraction is not None:
        found.append(
            "--eval_from and --eval_fraction each decide which rows are for evaluation. Remove one."
        )
    if config.eval_fraction is not None and not given and config.eval_from is None:
        found.append(
            "--split_key is missing. Name the column, such as user_id, whose values decide which "
            "rows are for evaluation, or use --split_rows or --split_time."
        )
    if given and config.eval_fraction is None and config.eval_from is None:
        what = "values of --split_key" if config.split_key is not None else "rows"
        also = ", or give --eval_from" if given == ["split_time"] else ""
        found.append(
            f"--eval_fraction is missing. Say which share of the {what} is for evaluation, such as "
            f"0.1{also}."
        )
    return found


def _label_problems(config: AllSettings) -> list[str]:
    found = []
    for text in config.derive_labels:
        try:
            DerivedLabel.parse(text)
        except ValueError as error:
            found.append(str(error))
    return found + names.problems("derive_labels", _labels(config))


def _labels(config: AllSettings) -> list[str]:
    """The names of derived labels, whether or not the rest of them can be read."""
    return [text.partition("=")[0] for text in config.derive_labels]


def _sequence_problems(config: AllSettings) -> list[str]:
    given = {
        "order_by": config.order_by,
        "sequence_columns": config.sequence_columns,
        "sequence_steps": config.sequence_steps,
        "targets": None if config.targets == "next" else config.targets,
    }
    if config.sequence_by is None:
        return [
            f"--{name} is for sequences. Name the column of a history, such as user_id, with "
            "--sequence_by."
            for name, value in given.items()
            if value
        ]
    found = names.problems("sequence_columns", config.sequence_columns)
    if config.order_by is None:
        found.append("--order_by is missing. Name the column with the time of each row.")
    if not config.sequence_columns:
        found.append("--sequence_columns is missing. Name the column with the item of each row.")
    elif not found:
        found += _problems_of_names(config)
    if config.split_key is not None and config.targets == "leave_one_out":
        found.append(
            "--split_key is for --targets=next. --targets=leave_one_out splits each history itself."
        )
    elif config.split_key not in (None, config.sequence_by):
        found.append(
            f"--split_key: expected {config.sequence_by}, as in --sequence_by, got "
            f"{config.split_key}. All rows of a history must be on the same side."
        )
    for label in _labels(config):
        if label not in config.sequence_columns:
            found.append(
                f"--derive_labels: expected {label!r} in --sequence_columns, because records of "
                "sequences have only these columns. Add it."
            )
    for name in ("split_rows", "split_time"):
        if getattr(config, name):
            found.append(
                f"--{name} is for a conversion without --sequence_by. Use --split_key="
                f"{config.sequence_by}, or --targets=leave_one_out."
            )
    for name in ("convert_processes", "beam_options"):
        if getattr(config, name) is not None:
            found.append(
                f"--{name} is for a conversion without --sequence_by. One process makes all "
                "sequences. Remove it."
            )
    return found


def _problems_of_names(config: AllSettings) -> list[str]:
    """Features of sequences that would have the same name."""
    assert config.sequence_by is not None
    options = SequenceOptions(config.sequence_by, "", config.sequence_columns)
    if options.by in options.columns:
        return [
            f"--sequence_columns: {options.by!r} is also --sequence_by, and has the same value in "
            "each step. Remove it."
        ]
    return [
        f"--sequence_columns: {name!r} is the name of a feature that the conversion adds. Rename "
        "the column."
        for name in (options.by, *options.columns)
        if name == options.target
    ]


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
    except beam_runner.BeamFlagsError as error:
        found.append(f"--beam_options: {error}")
    return found
