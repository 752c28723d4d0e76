"""Several runs in one page: metrics side by side, learning curves in one chart, differences."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Sequence
from typing import Optional

from estimator_kit.observing.outcome import number
from estimator_kit.observing.page import charts
from estimator_kit.observing.page.findings import main_metric
from estimator_kit.observing.page.numbers import Numbers, flags_by_name
from estimator_kit.observing.page.sections import Section, with_charts


def sections(runs: Sequence[Numbers]) -> list[Section]:
    """The sections of a comparison.

    Args:
      runs: at least two runs. An objective is shown for the runs that have it.
    """
    shown = [_metrics(runs), _curves(runs), _flags(runs), *_specs(runs)]
    return [section for section in shown if section is not None]


def name_of(run: Numbers) -> str:
    """The name of a run on the page, which is its model directory."""
    return os.path.normpath(run.model_dir)


def _metrics(runs: Sequence[Numbers]) -> Section:
    keys = sorted({key for run in runs for key in run.metrics if "/" in key})
    rows = [[key, *(number(run.metrics.get(key)) for run in runs)] for key in keys]
    steps = ", ".join(f"step {run.step:,}" for run in runs if run.step is not None)
    return Section(
        "Metrics", f"At {steps}." if steps else "", table=(["metric", *map(name_of, runs)], rows)
    )


def _curves(runs: Sequence[Numbers]) -> Optional[Section]:
    wanted = {"loss": None}
    for run in runs:
        wanted.update({main_metric(run, objective)[0]: None for objective in run.spec.objectives})
    figures = []
    for metric in wanted:
        fig = charts.figure(metric, "step", metric)
        for run in runs:
            series = run.series(metric)
            if series:
                steps, values = zip(*series)
                charts.line(fig, steps, values, name_of(run))
        figures.append(fig if fig.data else None)
    return with_charts("Learning curves", "", figures)


def _flags(runs: Sequence[Numbers]) -> Section:
    by_run = [flags_by_name(run.flags) for run in runs]
    names = sorted({name for flags in by_run for name in flags})
    rows = [
        [f"--{name}", *("; ".join(flags.get(name, ())) or "(default)" for flags in by_run)]
        for name in names
        if len({tuple(flags.get(name, ())) for flags in by_run}) > 1
    ]
    return Section("Flags that differ", table=(["flag", *map(name_of, runs)], rows))


def _specs(runs: Sequence[Numbers]) -> list[Section]:
    first = runs[0]
    tables = []
    for run in runs[1:]:
        lines = difflib.unified_diff(
            _lines(first), _lines(run), name_of(first), name_of(run), n=1, lineterm=""
        )
        text = "\n".join(lines)
        tables.append(Section(f"Spec: {name_of(first)} and {name_of(run)}", pre=text or "equal"))
    return tables


def _lines(run: Numbers) -> list[str]:
    document = run.spec.to_dict(defaults=True)
    return json.dumps(document, indent=1, sort_keys=True).splitlines()
