"""What `inspect`, `report` and `validate` show and compare. Imports no TensorFlow."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.areas.base import Count, InStore, Settings, setting
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.program import Program

# A baseline with this name, or one that ends with it, has no records.
STATISTICS = "statistics.json"


class Looking(Settings):
    """What `inspect`, `report` and `validate` show and compare."""

    heading: ClassVar[str] = "Looking at models and data"

    graph_dir: Optional[str] = setting(
        None,
        "The folder for an events file with the graph, for TensorBoard.",
        changes="nothing",
        in_store=InStore.FOLDER,
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
    baseline: tuple[str, ...] = setting(
        (),
        "What to compare --train_files with: earlier files (TFRecord, Parquet, CSV or JSON lines, "
        "by their names), or the statistics.json of an earlier --mode=analyze. The report shows "
        "how far --train_files drifted from it, and compares the drift with the section drift of "
        "the spec.",
        changes="nothing",
        in_store=InStore.FILES,
    )

    @property
    def baseline_statistics(self) -> Optional[str]:
        """The statistics to compare with, or None if `baseline` has records."""
        is_one = len(self.baseline) == 1 and self.baseline[0].endswith(STATISTICS)
        return self.baseline[0] if is_one else None


def problems(looking: Looking, program: Program, data: Data) -> list[str]:
    """Rows to look at that are missing, and two baselines."""
    lines = []
    reads_rows = program.mode == "validate" and (looking.validate_rows > 0 or looking.baseline)
    if reads_rows and not data.train_files:
        lines.append("--train_files is missing. --validate_rows and --baseline look at its rows.")
    if len(looking.baseline) > 1 and any(b.endswith(STATISTICS) for b in looking.baseline):
        lines.append(
            f"--baseline: expected files with records or one {STATISTICS}, got both. Give one of "
            "them."
        )
    return lines
