"""A log of events in `--mode=analyze --labels=next_item_id`: its columns, and its conversion.

The label is not a column: it is the item of the next row of the same person. So the log is
converted first, and the analysis reads the records.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any, Optional

from estimator_kit.commands import convert, first_experiment
from estimator_kit.config import table_settings
from estimator_kit.config.areas import conversion as rules
from estimator_kit.config.areas.conversion import Conversion
from estimator_kit.config.modes import Analyze
from estimator_kit.errors import ConfigError
from input_pipelines.prepare.analyze import folder, log_columns
from input_pipelines.prepare.convert.options import NEXT
from input_pipelines.prepare.tables import reader
from input_pipelines.reading import files


def of_log(
    command: Analyze, paths: Sequence[str]
) -> Optional[tuple[first_experiment.Files, str, list[str]]]:
    """Converts a log whose next items are the label.

    Returns the files of a training, the text for the user, and the records to analyze; or None if
    the labels are columns of the table.

    Raises:
      ConfigError: no column looks like the person or the time, or settings do not go together.
    """
    given, labels = command.conversion, command.analysis.labels
    if given.sequence_by is None and not any(label.startswith(NEXT) for label in labels):
        return None
    csv = table_settings.csv_options(command.tables, None, paths)
    names = [column.name for column in reader.open_table(paths, csv=csv).columns]
    items = next(iter(given.sequence_columns), None) or log_columns.items_of(labels, names)
    if items is None:
        if given.sequence_by is None:
            return None
        raise ConfigError(
            "--sequence_columns is missing. Name the column with the item of each row."
        )
    if given.convert_dir is None:
        raise ConfigError(
            f"--labels: {labels[0]!r} is the next {items} of a history, which a conversion makes. "
            "Name a folder for its records with --convert_dir."
        )
    if labels != (f"{NEXT}{items}",):
        raise ConfigError(
            f"--labels: expected only {NEXT}{items} with sequences of {items!r}, got "
            f"{','.join(labels)}. Analyze the other labels without --sequence_by."
        )
    assert command.analysis.analysis_dir is not None, "the rules require it"
    folder.check(pathlib.Path(command.analysis.analysis_dir))
    settled, lines = _settled(given, names, items)
    problems = rules.convert_problems(settled, command.program, command.run, command.tables)
    if problems:
        raise ConfigError("\n".join(problems))
    result = convert.written(
        settled, command.program, command.tables, command.choice.seed, paths, None
    )
    why = "histories without their last two items"
    if settled.targets != "leave_one_out":
        why = "histories"
    training = first_experiment.files_of(settled, result, why)
    records = files.expand([training.settings[0].value], flag="--convert_dir")
    return training, "\n".join([result.text(), *lines]), records


def _settled(given: Conversion, names: Sequence[str], items: str) -> tuple[Conversion, list[str]]:
    """The conversion with all columns of sequences, and a line for each guess."""
    guesses: dict[str, Any] = {}
    lines = []
    for setting, role, what in (
        ("sequence_by", "person", "whose history it is"),
        ("order_by", "time", "what orders a history"),
    ):
        if getattr(given, setting) is not None:
            continue
        name = log_columns.guessed(role, names, [items, *guesses.values()])
        if name is None:
            raise ConfigError(
                f"--{setting} is missing, and no column has the name of a {role}. Name one of: "
                f"{', '.join(names)}."
            )
        guesses[setting] = name
        lines.append(f"  {name}: {what}, a guess by its name (--{setting}=...)")
    if not given.sequence_columns:
        guesses["sequence_columns"] = (items,)
        lines.append(f"  {items}: each step, as the label says (--sequence_columns={items},...)")
    if given.sequence_steps is None:
        guesses["sequence_steps"] = log_columns.STEPS
        lines.append(
            f"  at most {log_columns.STEPS} steps in a record, because most models learn little "
            "from older ones (--sequence_steps=...)"
        )
    if "targets" not in given.model_fields_set and given.split is None:
        guesses["targets"] = "leave_one_out"
        lines.append("  the last item of each history is for testing (--targets=leave_one_out)")
    settled, order = first_experiment.in_random_order(given.model_copy(update=guesses))
    return settled, lines + order
