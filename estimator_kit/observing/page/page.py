"""`report.html` in a model directory: one file that opens without a network.

    path = write("runs/ads")

The page shows the files that a run has written (`numbers`), so `--mode=report` can make it again at
any time. It contains aggregates, never rows. The extra `report` installs Jinja2, which fills the
template, and Plotly, whose JavaScript is inside the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any, Optional

from estimator_kit.errors import ConfigError
from estimator_kit.observing.outcome import first_lines
from estimator_kit.observing.page import numbers as numbers_module
from estimator_kit.observing.page.findings import findings
from estimator_kit.observing.page.numbers import Numbers
from estimator_kit.observing.standing import headline as where_it_stands
from estimator_kit.result import (
    ALREADY_DONE,
    EARLY_STOPPED,
    HOOK,
    INPUT_EXHAUSTED,
    MAX_STEPS,
    SIGTERM,
    RunResult,
)
from feature_specs.files import documents

FILE = "report.html"
COMPARISON = "compare.html"
HISTORY = "history.html"

# A number with its unit, such as 39.1 KiB; or nothing.
_NUMBER = re.compile(r"([-+]?[\d.,]+(e[-+]?\d+)?( ?%| \w+)?)?")

# The most characters of a word that stays on one line.
_MOST_WHOLE = 24

# How a training ended, by the stop_reason of `result.json`.
_ENDS = {
    ALREADY_DONE: "finished already: nothing was left to train",
    EARLY_STOPPED: "stopped early: the watched metric did not improve",
    INPUT_EXHAUSTED: "finished: all epochs are done",
    MAX_STEPS: "finished: --max_steps is reached",
    SIGTERM: "stopped by SIGTERM",
    HOOK: "stopped by a hook of the model",
}


def check_installed() -> None:
    """Raises ConfigError if the extra `report` is not installed."""
    try:
        import jinja2  # noqa: F401
        import plotly  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"the report page needs the packages Jinja2 and Plotly, got: {error}. Install them "
            "with `pip install 'estimator-kit[report]'`, or turn the page off with --report=off."
        ) from error


def attempt(write: Callable[[], str]) -> str:
    """Writes a page at the end of a run. Returns a text with its path, or with the error.

    A run must not fail because of its report page, so every error becomes a text.
    """
    try:
        check_installed()
        return f"report: {write()}"
    except Exception as error:
        return f"no report page: {error}"


def write(model_dir: str) -> str:
    """Writes the page of a model directory and returns its path.

    Args:
      model_dir: the model directory of a training, which may still be running.

    Raises:
      ConfigError: a package is missing, or the directory contains no run.
    """
    check_installed()
    path = os.path.join(model_dir, FILE)
    documents.write_text(path, html(numbers_module.read(model_dir)))
    return path


def write_comparison(model_dirs: Sequence[str]) -> str:
    """Writes a page that compares runs into the first directory, and returns its path.

    Raises:
      ConfigError: see `write`.
    """
    check_installed()
    from estimator_kit.observing.page import compare

    runs = [numbers_module.read(model_dir) for model_dir in model_dirs]
    path = os.path.join(model_dirs[0], COMPARISON)
    title = " and ".join(compare.name_of(run) for run in runs)
    documents.write_text(path, _render(title, "comparison", compare.sections(runs)))
    return path


def write_sections(
    path: str, title: str, headline: str, sections: Sequence[Any], model_dir: Optional[str] = None
) -> None:
    """Writes a page with any sections.

    Args:
      path: the file to write.
      title, headline: what the page begins with.
      sections: see `sections.Section`.
      model_dir: a training whose sections follow, if given.

    Raises:
      ConfigError: a package is missing.
    """
    check_installed()
    from estimator_kit.observing.page.sections import sections as sections_of

    texts = None
    if model_dir is not None:
        numbers = numbers_module.read(model_dir)
        sections = [*sections, *sections_of(numbers)]
        texts = [finding.text for finding in findings(numbers)]
    documents.write_text(path, _render(title, headline, sections, findings=texts))


def html(numbers: Numbers) -> str:
    """The page of one run as text."""
    from estimator_kit.observing.page.sections import sections

    return _render(
        os.path.basename(os.path.abspath(numbers.model_dir)),
        _headline(numbers.result),
        sections(numbers),
        findings=[finding.text for finding in findings(numbers)],
    )


def _render(
    title: str, headline: str, sections: Sequence[Any], findings: Optional[list[str]] = None
) -> str:
    import jinja2
    from plotly.offline import get_plotlyjs

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("estimator_kit.observing.page", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["column_classes"] = _column_classes
    return environment.get_template("page.html").render(
        title=title,
        headline=headline,
        findings=findings,
        sections=sections,
        plotly=get_plotlyjs(),
    )


def _column_classes(rows: Sequence[Sequence[str]]) -> str:
    """The classes of a table: `left3` if column 3 holds words, `whole3` if it should not wrap."""
    classes = []
    for place, cells in enumerate(zip(*rows), start=1):
        if not all(_NUMBER.fullmatch(cell) for cell in cells):
            classes.append(f"left{place}")
            if max(map(len, cells)) <= _MOST_WHOLE:
                classes.append(f"whole{place}")
    return " ".join(classes)


def _headline(result: RunResult) -> str:
    text, step = _ENDS.get(result.stop_reason or "", result.status), result.global_step
    end = f"{text} (step {step:,})" if step is not None else text
    first = [f"{line[0].upper()}{line[1:]}." for line in first_lines(result)]
    first += filter(None, [where_it_stands(result)])
    return " ".join([*first, f"{end[0].upper()}{end[1:]}."]) if first else end
