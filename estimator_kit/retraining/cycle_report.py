"""The report of a cycle, as Markdown and JSON, and the table of all cycles.

It is made from the outputs of the stages on disk. So it can be made again, and a cycle that was
stopped has a report of its finished stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from pydantic import Field

from estimator_kit.retraining import data_checks as checks_module
from estimator_kit.retraining import lineage
from estimator_kit.retraining.cycle_files import CycleFile, CycleFolder
from estimator_kit.retraining.cycle_versions import Promoted
from estimator_kit.retraining.data_checks import Checked
from estimator_kit.retraining.gate import Finding
from estimator_kit.retraining.gate_stage import Both, Interval, Judged
from estimator_kit.retraining.retention import Cleaned
from estimator_kit.retraining.training_stage import Start, Trained
from estimator_kit.retraining.vocabularies import Vocabularies, Words
from estimator_kit.retraining.window import CycleWindow, PeriodData
from feature_specs.files import documents
from feature_specs.statistics import population


class Names(documents.Part):
    """The window of a cycle: names of periods, and rows of those for training."""

    train: list[str] = Field([])
    evaluate: list[str] = Field([])
    rows: int = 0
    dropped: int = 0
    left_out: dict[str, str] = Field({})
    late: list[str] = Field([])
    rewritten: list[str] = Field([])


class Report(CycleFile):
    """What a cycle did, in the words of its stages.

    Attributes:
      outcome: `promoted`, `refused`, `stopped`, `failed` or `unfinished`.
      problem: why the cycle was stopped or failed.
      label_means: `{label: {period: mean}}`.
      gate: the findings of the gate.
      live_before: the version that the candidate was compared with.
      version: the version that the cycle went live as.
      promoted_as: `canary` if the version is a canary, which is not live.
      live_now: the version that is live now. After a rollback it is not the version of the cycle.
    """

    NAME = "report.json"
    cycle: str
    outcome: str
    problem: Optional[str]
    as_of: Optional[str]
    window: Names
    checks: list[checks_module.Finding]
    label_means: dict[str, dict[str, float]] = Field({})
    vocabularies: dict[str, Words] = Field({})
    kept_statistics: list[str] = Field([])
    start: Optional[Start]
    warm_start: dict[str, int]
    global_step: Optional[int] = None
    rows_evaluated: Optional[int]
    metrics: dict[str, Both]
    intervals: dict[str, dict[str, Interval]] = Field({})
    measured: dict[str, Optional[float]]
    gate: list[Finding]
    live_before: Optional[int]
    version: Optional[int]
    promoted_as: Optional[str] = None
    live_now: Optional[int] = None
    removed: list[str] = Field([])
    seconds: dict[str, float]

    @classmethod
    def of(
        cls, folder: CycleFolder, outcome: str, live: Optional[int], problem: Optional[str] = None
    ) -> Report:
        """The report of a cycle, from the files of its finished stages. `live` is `live_now`."""
        window, trained = folder.load(CycleWindow), folder.load(Trained)
        judged, checked = folder.load(Judged), folder.load(Checked)
        words, promoted = folder.load(Vocabularies), folder.load(Promoted)
        cleaned = folder.load(Cleaned)
        train, evaluate = (window.train, window.evaluate) if window else ((), ())
        return cls(
            cycle=folder.name,
            outcome=outcome,
            problem=problem,
            as_of=window.as_of if window else None,
            window=Names(
                train=[period.name for period in train],
                evaluate=[period.name for period in evaluate],
                rows=sum(period.rows for period in train),
                dropped=sum(period.dropped for period in train),
                left_out=window.left_out if window else {},
                late=list(window.late) if window else [],
                rewritten=list(window.rewritten) if window else [],
            ),
            checks=checked.findings if checked else [],
            label_means=(checked and checked.label_means) or _of_gate(evaluate, judged),
            vocabularies=words.files if words else {},
            kept_statistics=words.kept if words else [],
            start=trained.start if trained else None,
            warm_start=trained.warm_start if trained else {},
            global_step=trained.global_step if trained else None,
            rows_evaluated=judged.rows if judged else None,
            metrics=judged.metrics if judged else {},
            intervals=judged.intervals if judged else {},
            measured=judged.measured if judged else {},
            gate=judged.findings if judged else [],
            live_before=judged.live_version if judged else None,
            version=promoted.version if promoted else None,
            promoted_as=promoted.label if promoted else None,
            live_now=live,
            removed=cleaned.removed if cleaned else [],
            seconds=lineage.seconds(folder),
        )

    @property
    def label(self) -> Optional[str]:
        """What tells a cycle from others: the periods that it was evaluated on."""
        return _from_to(self.window.evaluate) or None

    @property
    def headline(self) -> str:
        """The outcome of the cycle in one sentence."""
        cycle = f"{self.cycle} ({self.label})" if self.label is not None else self.cycle
        before, version, now = self.live_before, self.version, self.live_now
        live = f"version {before} stays live" if before is not None else "nothing is live yet"
        promoted = f"cycle {cycle} was promoted: version {version} is live"
        if now is not None and now != version:
            promoted = f"cycle {cycle} was promoted as version {version}; version {now} is live now"
        if self.promoted_as is not None:
            promoted = f"cycle {cycle} passed the gate: version {version} is the canary; {live}"
        return {
            "promoted": promoted,
            "refused": f"cycle {cycle} was refused by the gate: {live}",
        }.get(self.outcome, f"cycle {cycle} {self.outcome}: {self.problem}")

    @property
    def failed(self) -> list[Finding]:
        """The conditions of the gate that are not met."""
        return [finding for finding in self.gate if finding.passed is False]

    @property
    def reasons(self) -> list[str]:
        """Why a cycle was not promoted: the failed conditions, or the error."""
        sentences = [finding.sentence for finding in self.failed]
        return sentences or ([self.problem] if self.problem else [])


def _of_gate(
    periods: Sequence[PeriodData], judged: Optional[Judged]
) -> dict[str, dict[str, float]]:
    """`Report.label_means` without statistics of the periods: the means of the rows of the gate."""
    names = _from_to([period.name for period in periods])
    means = judged.label_means if judged is not None else {}
    return {label: {names: mean} for label, mean in means.items() if mean is not None}


def _from_to(names: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys((*names[:1], *names[-1:])))


def write(folder: CycleFolder, report: Report) -> None:
    """Writes `report.json` and `report.md`."""
    folder.save(report)
    documents.write_text(folder.at("report.md"), markdown(report))


def markdown(report: Report) -> str:
    """The report as Markdown. The program prints the same text."""
    window, start = report.window, report.start
    lines = [f"# {report.headline}", ""]
    if window.train:
        lines += [
            f"- as of {report.as_of}: {len(window.train)} periods from {window.train[0]} to "
            f"{window.train[-1]}, {population(window.rows, window.dropped, 'row')}; evaluated on "
            f"{', '.join(window.evaluate)}"
        ]
    lines += [f"- left out {name}: {reason}" for name, reason in window.left_out.items()]
    for what, names in (("late", window.late), ("rewritten", window.rewritten)):
        if names:
            lines.append(f"- {what}: {', '.join(names)}")
    lines += [f"- {finding.verdict}: {finding.text}" for finding in report.checks]
    for name, words in report.vocabularies.items():
        lines.append(
            f"- {name}: {words.words:,} words, {words.new:,} new, {words.moved:,} moved, "
            f"{words.dropped:,} dropped"
        )
    lines += [
        f"- {name}: statistics of the model that training starts from"
        for name in report.kept_statistics
    ]
    if start is not None:
        source = f" ({start.cycle or start.source})" if start.source else ""
        reason = f": {_indented(start.reason)}" if start.reason else ""
        counts = ", ".join(f"{n} {what}" for what, n in report.warm_start.items())
        weights = f"; weights: {counts}" if counts else ""
        lines.append(f"- started from {start.kind}{source}{reason}{weights}")
    if report.metrics:
        lines += ["", f"| metric, {report.rows_evaluated:,} rows | live | candidate |"]
        lines.append("| --- | ---: | ---: |")
        for name, both in report.metrics.items():
            lines.append(f"| {name} | {_number(both.live)} | {_number(both.candidate)} |")
        for name, value in report.measured.items():
            lines.append(f"| {name} | | {_number(value)} |")
    if report.gate:
        lines += ["", *(f"- {finding.sentence}" for finding in report.gate)]
    elif report.metrics:
        lines += ["", "- the gate of the spec has no conditions, so every candidate goes live"]
    if report.seconds:
        seconds = ", ".join(f"{name} {value:.1f} s" for name, value in report.seconds.items())
        lines += ["", f"Took {seconds}."]
    return "\n".join(lines) + "\n"


def _indented(text: str) -> str:
    """A text of several lines inside an item of a list."""
    return text.rstrip().replace("\n", "\n  ")


def _number(value: Optional[float]) -> str:
    return "" if value is None else f"{value:.6g}"


def main_metrics(reports: Sequence[Report]) -> list[str]:
    """The metrics of the gate's conditions, and the first metric of each other objective."""
    compared = dict.fromkeys(name for report in reports for name in report.metrics)
    judged = {finding.text.partition(" ")[0] for report in reports for finding in report.gate}
    shown = [name for name in compared if name in judged]
    covered = {name.partition("/")[2] for name in shown}
    for name in compared:
        if name.partition("/")[2] not in covered:
            shown.append(name)
            covered.add(name.partition("/")[2])
    return shown


def history(cycles: Sequence[CycleFolder], live: Optional[int]) -> str:
    """The table of all cycles, the oldest first, and why cycles were not promoted."""
    reports = [(cycle, of_cycle(cycle)) for cycle in cycles]
    metrics = main_metrics([report for _, report in reports])
    shared = ("cycle", "evaluated on", "periods", "rows", "start", "warnings", "outcome", "version")
    rows = [(*shared, *(f"{name} {whose}" for name in metrics for whose in ("live", "candidate")))]
    for cycle, report in reports:
        version, empty = report.version, Both(candidate=None)
        both = [report.metrics.get(name, empty) for name in metrics]
        rows.append(
            (
                cycle.name,
                report.label or "",
                f"{len(report.window.train)}",
                f"{report.window.rows:,}",
                report.start.kind if report.start is not None else "",
                f"{len(report.checks)}",
                cycle.outcome or report.outcome,
                "" if version is None else f"{version}{' live' if version == live else ''}",
                *(_number(value) for each in both for value in (each.live, each.candidate)),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    ]
    for cycle, report in reports:
        lines += [f"cycle {cycle.name}: {_indented(text)}" for text in report.reasons]
    return "\n".join(lines)


def of_cycle(folder: CycleFolder) -> Report:
    """The report of a cycle; if it has written none, what its finished stages say."""
    return folder.load(Report) or Report.of(folder, folder.outcome or "unfinished", live=None)
