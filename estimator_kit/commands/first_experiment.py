"""What `--mode=analyze` does after the first spec: TFRecords, and the flags of a first training.

    estimator-kit analyze --train_files=raw.csv --labels=click --analysis_dir=first \\
        --convert_dir=first/data
    estimator-kit train_and_evaluate --flagfile=first/exp.flags

The flags come from `first_settings`.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import shlex
from collections.abc import Sequence
from typing import Optional

from estimator_kit.commands import convert
from estimator_kit.config.areas.conversion import Conversion
from estimator_kit.config.areas.exports import REFERENCE_MODELS
from estimator_kit.config.modes import Analyze
from feature_specs.errors import counted
from feature_specs.parser import parser
from input_pipelines.prepare.analyze import first_flags, first_settings, first_split, folder
from input_pipelines.prepare.analyze.first_settings import Setting
from input_pipelines.prepare.analyze.first_spec import FirstSpec

MODEL_FOLDER = "model"


@dataclasses.dataclass(frozen=True)
class Files:
    """The TFRecord files of a first experiment.

    Attributes:
      settings: the flags that name them, each with its reason.
      rows: how many rows there are to train on.
      evaluated: whether there are files for evaluation.
    """

    settings: tuple[Setting, ...]
    rows: int
    evaluated: bool


def converted(command: Analyze, paths: Sequence[str], first: FirstSpec) -> tuple[Files, str]:
    """Converts the rows of a first spec. Returns the files, and the text for the user."""
    ranking = "ranking" in first.heads.values()
    conversion, why = _split(command.conversion, first, ranking=ranking)
    order: list[str] = []
    if not ranking:
        conversion, order = in_random_order(conversion)
    result = convert.written(
        conversion,
        command.program,
        command.tables,
        command.choice.seed,
        paths,
        parser.load(first.path),
    )
    names = ("split", "split_eval", "split_test")
    flags = [f"--{name}={getattr(conversion, name)}" for name in names if getattr(conversion, name)]
    return files_of(conversion, result, why), "\n".join(
        [result.text(), f"  {why} ({' '.join(flags)})", *order]
    )


def in_random_order(conversion: Conversion) -> tuple[Conversion, list[str]]:
    """The conversion with all rows shuffled and a line about it, unless the user gives an order."""
    if "convert_order" in conversion.model_fields_set:
        return conversion, []
    line = "  in random order, because tables are often sorted (--convert_order=stable keeps it)"
    return conversion.model_copy(update={"convert_order": "shuffled"}), [line]


def _split(conversion: Conversion, first: FirstSpec, *, ranking: bool) -> tuple[Conversion, str]:
    """The conversion with a split, and why."""
    split = first_split.default(first.statistics, first.roles, first.times, ranking=ranking)
    if conversion.split is not None:
        split = first_split.Split(conversion.split, "as --split says")
    shares = {"split_eval": first_split.EVAL_SHARE, "split_test": first_split.TEST_SHARE}
    if conversion.split_eval is not None:  # The user decides how many parts there are.
        shares = {}
    return conversion.model_copy(update={"split": split.value, **shares}), split.why


def files_of(conversion: Conversion, result: convert.Result, why: str) -> Files:
    """The files that a conversion wrote."""
    assert conversion.convert_dir is not None
    rows = result.rows_of_parts()
    patterns = {part: os.path.join(conversion.convert_dir, f"{part}-*") for part in rows}
    train = "train" if "train" in rows else "data"
    settings = [Setting("train_files", patterns[train], _of_rows(rows[train], why))]
    if rows.get("eval"):
        value = patterns["eval"]
        about = _of_rows(rows["eval"], "they judge each evaluation, and so choose the best step")
        if rows.get("test"):
            value += f",test={patterns['test']}"
            about += (
                f". The {counted(rows['test'], 'record')} of the set test choose nothing, so their "
                "metrics are what to expect of new rows"
            )
        settings.append(Setting("eval_files", value, about))
    return Files(tuple(settings), rows[train], bool(rows.get("eval")))


def _of_rows(rows: int, why: str) -> str:
    return f"{counted(rows, 'record')}: {why}"


def of_records(command: Analyze, first: FirstSpec) -> Files:
    """The TFRecord files that were analyzed."""
    names = [("train_files", ",".join(command.data.train_files))]
    if command.data.train_days is not None:
        names.append(("train_days", command.data.train_days))
    rows = first.statistics.rows
    settings = tuple(Setting(flag, value, "the files of the analysis") for flag, value in names)
    return Files(settings, rows, evaluated=False)


def write_flags(first: FirstSpec, files: Files) -> str:
    """Writes `exp.flags` into the analysis folder, and returns the command that uses it."""
    directory = first.path.parent
    path = directory / first_flags.FILE
    objective, head = next(iter(first.heads.items()))
    suggested = first_settings.suggest(
        rows=files.rows,
        head=head,
        objective=objective,
        deep_columns=len(first.groups.get("deep", ())),
        evaluated=files.evaluated,
    )
    settings = [
        Setting("spec", str(first.path), "what a record holds, and what to learn"),
        *files.settings,
        *suggested,
        *_references(head, files),
        Setting("model_dir", str(directory / MODEL_FOLDER), "checkpoints, exports and the report"),
    ]
    mode = "train_and_evaluate" if files.evaluated else "train"
    command = next_command(mode, flagfile=str(path))
    text = first_flags.text(settings, command=command, evaluated=files.evaluated)
    folder.refresh(directory, {first_flags.FILE: text})
    return command


def _references(head: str, files: Files) -> list[Setting]:
    """The models to compare with, if there are any for the head."""
    if head == "next_item" or not files.evaluated:
        return []
    why = "simple models learn from the same rows, to show how good the model is"
    if importlib.util.find_spec("sklearn") is None:
        why += ". With the extra `reference`: --reference_models=" + ",".join(REFERENCE_MODELS)
        return [Setting("reference_models", "constant", why)]
    return [Setting("reference_models", ",".join(REFERENCE_MODELS), why)]


def next_command(mode: str, **flags: Optional[str]) -> str:
    """A command as a user types it. Flags without a value are left out."""
    given = [f"--{name}={value}" for name, value in flags.items() if value]
    return shlex.join(["estimator-kit", mode, *given])
