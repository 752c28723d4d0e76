"""What `--mode=tune` searches, in how many processes, and what scores its result.

Imports no TensorFlow.
"""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.areas.base import InStore, Settings, setting
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.run import Run
from feature_specs.files import stores


class Tuning(Settings):
    """What `--mode=tune` searches, in how many processes, and what scores its result."""

    heading: ClassVar[str] = "Search for settings"

    search: Optional[str] = setting(
        None,
        "auto: search models and their usual parameters for 5 minutes, or for another time, as in "
        "auto:20m. Else a YAML file with the parameters to search, their ranges and choices, the "
        "metric, and the number of trials. The guide Search describes it. --eval_files guide the "
        "search.",
        changes="",
        named=True,
    )
    test_files: tuple[str, ...] = setting(
        (),
        "TFRecord files or tables that score the best settings once, at the end of the search, "
        "trained on --train_files and --eval_files. They never guide it. By default, the set test "
        "of --eval_files, if it has one.",
        changes="scores",
        named=True,
        in_store=InStore.FILES,
    )


def problems(tuning: Tuning, program: Program, run: Run, data: Data) -> list[str]:
    """What does not go together in `--mode=tune`."""
    if program.mode != "tune":
        return []
    lines = []
    path = run.model_dir
    if path is not None and "://" in path and not stores.is_url(path):
        lines.append(
            f"--model_dir: expected a local or mounted folder, got {run.model_dir!r}. A search "
            "needs locks, which other file systems do not have."
        )
    for flag in ("train_files", "eval_files"):
        shared = sorted(set(data.plain(flag)) & set(tuning.test_files))
        if shared:
            lines.append(
                f"--{flag} and --test_files share {', '.join(shared)}. Score the best trial on "
                "files that the search has not seen."
            )
    return lines
