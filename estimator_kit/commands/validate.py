"""`--mode=validate`: checks flags and spec, and rows if you ask for it, before anything runs.

Imports TensorFlow only if a check needs it: for a model that a flag names, or for rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable

from estimator_kit.commands.validation import checks, pretrained
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.result import RunResult
from feature_specs.parser import parser

# How many names of each kind the report of a spec lists.
_NAMED = 12


def run(config: ExperimentConfig, tell: Callable[[str], None]) -> RunResult:
    """Reports what is in the spec, then the result of each check of rows.

    Raises:
      SpecError, ConfigError: something cannot be used; the checks before it have been reported.
      DataError: a file cannot be read.
    """
    tell(validation_report(config))
    if config.validate_rows or config.baseline:
        data = importlib.import_module("estimator_kit.commands.validation.data")
        for found in data.reports(config):
            tell(found)
        tell(f"{config.spec}: the spec, the flags and the data fit together")
    return RunResult(mode=config.mode)


def validation_report(config: ExperimentConfig) -> str:
    """Reads the spec and describes it; raises SpecError if it cannot be used.

    It also checks pretrained vectors, because a training would refuse them if they were wrong.
    """
    spec = parser.load(config.spec)
    with_data = config.validate_rows or config.baseline
    heading = "the spec and the flags are correct, as far as the lines below show"
    if with_data:
        heading = "the spec and the flags, before the data"
    lines = [f"{config.spec}: {heading}"]
    for what in ("features", "columns", "labels", "objectives"):
        names = getattr(spec, what)
        lines.append(f"  {len(names):>3} {what}: {_some(names)}")
    for group, columns in spec.groups.items():
        lines.append(f"  group {group}, {len(columns)} columns: {_some(columns)}")
    lines += pretrained.report(config, spec)
    lines += checks.report(config, spec)
    if with_data:
        lines.append("  data: the result comes below")
    else:
        lines.append("  data: not read; --validate_rows=1000 compares rows with the spec")
    if spec.drift.any and not config.baseline:
        lines.append(
            "  drift: only its thresholds were checked; --baseline says what to compare records "
            "with"
        )
    return "\n".join(lines)


def _some(names: Iterable[str]) -> str:
    """The names, or the first ones if there are many."""
    every = list(names)
    more = f", and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more
