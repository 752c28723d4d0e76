"""Which settings a mode needs: the table of modes says it. Imports no TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence

from estimator_kit.config.modes import MODES
from estimator_kit.config.settings import AllSettings

# What is missing, for settings whose name does not say it.
_MEANING = {
    "analysis_dir": "the folder for the first spec",
    "labels": "the features to learn, such as --labels=click,purchase",
    "serving_models": "names and folders of versions, such as ads=runs/ads/export/best",
    "window_days": "the number of days to train on",
    "search": "a YAML file with what to search",
    "to": "the version to make live again",
}


def problems(config: AllSettings) -> list[str]:
    """A line for each setting that the mode needs and the config does not have."""
    return [
        missing(name, config.mode, instead)
        for name, instead in MODES[config.mode].needs.items()
        if not any(getattr(config, given) for given in (name, *instead))
    ]


def missing(name: str, mode: str, instead: tuple[str, ...] = ()) -> str:
    """The problem of a setting that is missing; `instead` names those that can take its place."""
    unless = f" unless you give {alternatives(instead)}" if instead else ""
    return f"--{name} is missing. --mode={mode} needs {_MEANING.get(name, 'it')}{unless}."


def alternatives(names: Sequence[str]) -> str:
    """`--a, --b or --c`."""
    flags = [f"--{name}" for name in names]
    return " or ".join([*filter(None, [", ".join(flags[:-1])]), flags[-1]])
