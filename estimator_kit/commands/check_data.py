"""`--mode=check_data`: reads every record of the files and reports what is bad. Trains nothing.

`input_pipelines.integrity.data_scan` reads the files. `--corrupt_data_policy` and its limits have
no effect here.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Optional

from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.run import Run
from estimator_kit.config.modes import CheckData
from estimator_kit.observing.progress import ScanProgress
from estimator_kit.result import RunResult, read_result, result_path
from estimator_kit.training import bad_data
from feature_specs.files import staged
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.integrity import data_scan
from input_pipelines.integrity.file_check import FileReport
from input_pipelines.reading import files
from input_pipelines.reading.mixing import Mix
from input_pipelines.record_files import file_bytes

# How many bad records of each file are printed.
_PRINTED = 3

_MB = 10**6


def run(command: CheckData, tell: Callable[[str], None]) -> RunResult:
    """Runs the mode; see `run_check`."""
    result, text = run_check(command.program, command.run, command.data)
    tell(text)
    return result


def run_check(program: Program, run: Run, data: Data) -> tuple[RunResult, str]:
    """Checks all files of `--train_files` or `--train_mix`, `--eval_files` and `--predict_files`.

    Returns the result, and the text for the user. The result is written to `result.json` in
    `--model_dir`, or to `check_data.json` if a training has written its own `result.json`.

    Raises:
      DataError: a record is bad; the message is the same report, and the result was written too.
      ConfigError: `--model_dir` cannot be written.
      MissingPackageError: TensorFlow has no file system for a path.
      SpecError: the spec cannot be used.
    """
    if run.model_dir is not None:
        staged.check_writable(run.model_dir, flag="--model_dir")
    spec = parser.load(run.spec) if run.spec else None
    learned = _expand(data, ("train_files", "train_mix", "eval_files"))
    predicted = _expand(data, ("predict_files",))
    both = set(files.shared(predicted, learned))
    predicted = [path for path in predicted if path not in both]
    size = sum(map(file_bytes.size, [*learned, *predicted]))
    started = time.perf_counter()
    with ScanProgress("check_data", size, program.log_every_secs) as progress:
        reports = _scan(learned, spec, True, progress) + _scan(predicted, spec, False, progress)
    text = _report(reports, time.perf_counter() - started, spec is not None)
    bad = [report for report in reports if report.bad_records]
    counts: dict[str, Any] = {
        "files": len(reports),
        "bad_files": len(bad),
        "records": sum(report.records for report in reports),
        "bad_records": sum(report.bad_records for report in reports),
        "lost_bytes": sum(report.lost_bytes for report in reports),
        "listing": [bad_data.as_dict(report) for report in bad],
    }
    error = text.splitlines()[-1] if bad else None
    status = "failed" if bad else "done"
    result = RunResult(mode=program.mode, status=status, bad_data=counts, error=error)
    if run.model_dir is not None:
        path = _kept_at(run.model_dir)
        result.save(path)
        text += f"\nwritten to {path}"
    if bad:
        raise DataError(text)
    return result, text


def _expand(data: Data, flags: Sequence[str]) -> list[str]:
    flags_with_value = [flag for flag in flags if getattr(data, flag)]
    paths: list[str] = []
    for flag in flags_with_value:
        days = data.days_of(flag.partition("_")[0]) if flag != "predict_files" else ()
        if flag == "train_mix":
            paths += Mix.of(data.train_mix, days=days, flag="--train_mix").files
        else:
            patterns = data.plain(flag)
            if flag == "eval_files":
                patterns += tuple(itertools.chain(*data.other_sets.values()))
            paths += files.expand(patterns, flag=f"--{flag}", days=days)
    return files.unique(paths)


def _scan(
    paths: list[str], spec: Optional[FeatureSpec], with_labels: bool, progress: ScanProgress
) -> list[FileReport]:
    if not paths:
        return []
    return data_scan.scan(paths, spec=spec, with_labels=with_labels, progress=progress)


def _kept_at(model_dir: str) -> str:
    kept = read_result(model_dir)
    if kept is None or kept.mode == "check_data":
        return result_path(model_dir)
    return os.path.join(model_dir, "check_data.json")


def _report(reports: Sequence[FileReport], seconds: float, with_spec: bool) -> str:
    """A table of the files with bad records, their first bad records, and a summary line."""
    bad = [report for report in reports if report.bad_records]
    lines = []
    if bad:
        rows = [("bad records", "records", "lost bytes", "file")]
        rows += [(f"{r.bad_records:,}", f"{r.records:,}", f"{r.lost_bytes:,}", r.path) for r in bad]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        dashes = ["-" * width for width in widths]
        rows.insert(1, (dashes[0], dashes[1], dashes[2], "----"))
        for row in rows:
            cells = [cell.rjust(width) for cell, width in zip(row, widths)]
            lines.append("  ".join([*cells, row[3]]))
        lines = [f"{len(bad)} of {len(reports)} files have bad records", *lines, ""]
        for report in bad:
            lines += [f"{report.path}: {item.sentence}" for item in report.listed[:_PRINTED]]
            if report.bad_records > _PRINTED:
                lines.append(f"{report.path}: and {report.bad_records - _PRINTED:,} more")
        lines.append("")
    size = sum(report.size for report in reports) / _MB
    compared = "compared with the spec"
    if not with_spec:
        compared = "not compared with a spec, because --spec is missing"
    lines.append(
        f"{sum(r.records for r in reports):,} records in {len(reports):,} files, {compared}; "
        f"{size:,.1f} MB in {seconds:.1f} s ({size / max(seconds, 1e-9):,.0f} MB/s); "
        f"{sum(r.bad_records for r in reports):,} bad records in {len(bad):,} files"
    )
    return "\n".join(lines)
