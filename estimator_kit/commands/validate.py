"""`--mode=validate`: checks flags and spec, and rows where it is asked to, before anything runs.

Loads TensorFlow only where a check cannot do without: a model that a flag names, or rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable

from estimator_kit.commands.validation import checks, pretrained
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.result import RunResult
from feature_specs.parser import parser

# Names that the report of a spec lists of each kind.
_NAMED = 12


def run(config: ExperimentConfig, tell: Callable[[str], None]) -> RunResult:
    """Tells what is in the spec, then what each check of rows has found.

    Raises:
      SpecError, ConfigError: something cannot be used; what was found before has been told.
      DataError: a file cannot be read.
    """
    tell(validation_report(config))
    if config.validate_rows or config.has_baseline:
        data = importlib.import_module("estimator_kit.commands.validation.data")
        for found in data.reports(config):
            tell(found)
    return RunResult(mode=config.mode)


def validation_report(config: ExperimentConfig) -> str:
    """Reads the spec and says what is in it; raises SpecError when it cannot be used.

    So that it does not say that what a training refuses is right, it looks at pretrained vectors.
    """
    spec = parser.load(config.spec)
    lines = [f"{config.spec}: the spec and the flags are right, as far as the lines below go"]
    for what in ("features", "columns", "labels", "objectives"):
        names = getattr(spec, what)
        lines.append(f"  {len(names):>3} {what}: {_some(names)}")
    for group, columns in spec.groups.items():
        lines.append(f"  group {group}, {len(columns)} columns: {_some(columns)}")
    lines += pretrained.report(config, spec)
    lines += checks.report(config, spec)
    if config.validate_rows or config.has_baseline:
        lines.append("  data: what was found comes below")
    else:
        lines.append("  data: not read; --validate_rows=1000 compares rows with the spec")
    if spec.drift.any and not config.has_baseline:
        lines.append(
            "  drift: its thresholds were looked at alone; --baseline_files or "
            "--baseline_statistics says what records are held against"
        )
    return "\n".join(lines)


def _some(names: Iterable[str]) -> str:
    """Names, the first of them where they are many."""
    every = list(names)
    more = f", and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more
