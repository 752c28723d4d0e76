"""What `inspect`, `report` and `validate` show and compare. Imports no TensorFlow."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.areas.base import Count, Settings, setting
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.program import Program


class Looking(Settings):
    """What `inspect`, `report` and `validate` show and compare."""

    heading: ClassVar[str] = "Looking at models and data"

    graph_dir: Optional[str] = setting(
        None,
        "The folder for an events file with the graph, for TensorBoard.",
        changes="nothing",
    )
    compare: tuple[str, ...] = setting(
        (),
        "Two or more model directories. The page compares their metrics and learning curves, and "
        "lists the flags and the lines of the spec that differ. It is written to compare.html in "
        "the first directory.",
        changes="nothing",
    )
    validate_rows: Count = setting(
        0,
        "Also compare this many rows of --train_files with the spec. 0 reads no data and needs "
        "no TensorFlow.",
        changes="nothing",
    )
    baseline_files: tuple[str, ...] = setting(
        (),
        "Earlier files to compare --train_files with: TFRecord, Parquet, CSV or JSON lines, by "
        "their names. The report shows how far --train_files drifted from them, and compares "
        "the drift with the section drift of the spec.",
        changes="nothing",
    )
    baseline_statistics: Optional[str] = setting(
        None,
        "As --baseline_files, but with the statistics.json of an earlier --mode=analyze "
        "instead of records.",
        changes="nothing",
    )

    @property
    def has_baseline(self) -> bool:
        return bool(self.baseline_files or self.baseline_statistics)


def problems(looking: Looking, program: Program, data: Data) -> list[str]:
    """Rows to look at that are missing, and two baselines."""
    found = []
    reads_rows = program.mode == "validate" and (looking.validate_rows > 0 or looking.has_baseline)
    if reads_rows and not data.train_files:
        found.append(
            "--train_files is missing. --validate_rows, --baseline_files and --baseline_statistics "
            "look at its rows."
        )
    if looking.baseline_files and looking.baseline_statistics:
        found.append(
            "--baseline_files and --baseline_statistics do not go together. Give one of them."
        )
    return found
