"""The first spec for records, and specs from and to other schemas. Imports no TensorFlow."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.areas.base import InStore, PositiveInt, Settings, name_problems, setting
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.run import Run


class Analysis(Settings):
    """The first spec for records, and specs from and to other schemas."""

    heading: ClassVar[str] = "Analysis and schemas"

    analysis_dir: Optional[str] = setting(
        None,
        "The folder for the first spec, its vocabularies and its statistics. Files that "
        "analysis did not write are never overwritten.",
        changes="nothing",
        in_store=InStore.FOLDER,
    )
    labels: tuple[str, ...] = setting(
        (),
        "The features to learn. A Schema can name them itself: by the tag label, or because "
        "they are absent in serving.",
        changes="nothing",
    )
    min_count: PositiveInt = setting(
        5,
        "Words that are rarer than this are left out of vocabulary files.",
        changes="values",
        named=True,
    )
    categorical: tuple[str, ...] = setting(
        (),
        "Features whose values are categories in the first spec, whatever analysis would decide.",
        changes="nothing",
    )
    numeric: tuple[str, ...] = setting(
        (),
        "Features whose values are numbers in the first spec, whatever analysis would decide.",
        changes="nothing",
    )
    ignore: tuple[str, ...] = setting(
        (),
        "Features that the first spec lists under `ignored`.",
        changes="nothing",
    )
    schema_file: Optional[str] = setting(
        None,
        "A TensorFlow Metadata Schema in text format (schema.pbtxt). --mode=schema reads it and "
        "writes a first spec to --analysis_dir, or writes it from --spec. A file that holds "
        "anything else is never overwritten.",
        changes="nothing",
        in_store=InStore.READ,
    )


def problems(analysis: Analysis, program: Program, run: Run) -> list[str]:
    """What does not go together in `--mode=analyze` and `--mode=schema`."""
    if program.mode == "analyze" and run.spec:
        return [
            f"--{field} is for a first spec, but with --spec, --mode=analyze refreshes the files "
            "that this spec refers to. Remove one of the two flags."
            for field in ("analysis_dir", "labels", *_DECISIONS)
            if getattr(analysis, field)
        ]
    if program.mode == "schema" and run.spec:
        if analysis.analysis_dir:
            return [
                "--spec and --analysis_dir do not go together in --mode=schema. Give --spec to "
                "write it as a Schema, or --analysis_dir to write a first spec from a Schema."
            ]
        if analysis.labels:
            return ["--labels is for a first spec, but --spec has its own. Remove --labels."]
    if program.mode in ("analyze", "schema"):
        return [*name_problems("labels", analysis.labels), *_decision_problems(analysis)]
    return []


_DECISIONS = ("categorical", "numeric", "ignore")


def _decision_problems(analysis: Analysis) -> list[str]:
    """What is wrong with the names of features in --categorical, --numeric and --ignore."""
    lines: list[str] = []
    flags: dict[str, str] = {}
    for flag in ("labels", *_DECISIONS):
        names = getattr(analysis, flag)
        lines += name_problems(flag, names) if flag != "labels" else []
        for name in dict.fromkeys(names):
            if name and name in flags:
                lines.append(
                    f"--{flag}: {name!r} is also in --{flags[name]}. Remove it from one of them."
                )
            flags.setdefault(name, flag)
    return lines
