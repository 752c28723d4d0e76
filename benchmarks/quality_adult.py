"""UCI Adult: wide & deep, DeepFM and DCN-v2, with the flagfiles of `examples/adult`.

All rows of adult.data are for training, all rows of adult.test for evaluation. A seed changes the
initial values, the dropout and the order of rows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Optional

from quality_runs import ROOT, Line, Run, commands, seeds_table

NEEDS_DATA = True

_FILES = "--train_files={0}/train.tfrecord", "--eval_files={0}/test.tfrecord"
SETTINGS: dict[str, Sequence[str]] = {
    "wide & deep": ["--flagfile=examples/adult/adult.flags"],
    "DeepFM": ["--flagfile=examples/adult/deepfm.flags"],
    "DCN-v2": ["--flagfile=examples/adult/dcn.flags"],
}
_METRICS = ("accuracy/income", "auc/income", "loss/income")


def runs(work: str, data: Optional[str], seed: int, *, tiny: bool = False) -> Iterator[Run]:
    folder = os.path.join(work, "adult")
    if not os.path.exists(f"{folder}/test.tfrecord"):
        command = [sys.executable, "examples/adult/prepare.py", f"--data_dir={data}/adult"]
        subprocess.run([*command, f"--out_dir={folder}"], check=True, cwd=ROOT)
    files = [flag.format(folder) for flag in _FILES]
    length = ["--max_steps=20"] if tiny else []
    for name, given in SETTINGS.items():
        yield Run("adult", name, seed, (*given, *files, *length), _METRICS)


def section(lines: Sequence[Line]) -> str:
    def shown(metric: str) -> str:
        return seeds_table(lines, list(SETTINGS), f"{metric}/income", metric, "{:.4f}".format)

    return f"""\
## UCI Adult

Does a person earn more than 50,000 dollars a year? 32,561 rows of 1994 (`adult.data`) train, 16,281
(`adult.test`) are evaluated once, at the end. A seed changes the initial values, the dropout and
the order of rows. Learning rates were chosen on seed 1.

{shown("accuracy")}

{shown("auc")}

{shown("loss")}

{commands(SETTINGS)}

`examples/adult/prepare.py` makes the data.
"""
