"""The report of a cycle, as Markdown and JSON, and the table of all cycles.

It is made from the outputs of the stages on disk. So it can be made again, and a cycle that was
stopped has a report of its finished stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from estimator_kit.retraining import lineage
from estimator_kit.retraining.state import CycleFolder
from feature_specs.files import documents
from feature_specs.statistics import population


def document(
    folder: CycleFolder, outcome: str, problem: Optional[str] = None, *, live: Optional[int] = None
) -> dict[str, Any]:
    """The report as JSON.

    Args:
      folder: the folder of the cycle.
      outcome: `promoted`, `refused`, `stopped` or `failed`.
      problem: why the cycle was stopped or failed.
      live: the version that is live now. After a rollback it is not the version of the cycle.
    """
    window = folder.read("window") or {}
    train = folder.read("train") or {}
    gate = folder.read("gate") or {}
    checks = folder.read("checks") or {}
    return {
        "cycle": folder.name,
        "outcome": outcome,
        "problem": problem,
        "as_of": window.get("as_of"),
        "window": {
            "train": [day["name"] for day in window.get("train", [])],
            "evaluate": [day["name"] for day in window.get("evaluate", [])],
            "rows": sum(day["rows"] for day in window.get("train", [])),
            "dropped": sum(day.get("dropped", 0) for day in window.get("train", [])),
            "left_out": window.get("left_out", {}),
            "late": window.get("late", []),
            "rewritten": window.get("rewritten", []),
        },
        "checks": checks.get("findings", []),
        "label_means": _label_means(window, checks, gate),
        "vocabularies": (folder.read("vocabularies") or {}).get("files", {}),
        "kept_statistics": (folder.read("vocabularies") or {}).get("kept", []),
        "start": train.get("start"),
        "warm_start": train.get("warm_start", {}),
        "global_step": train.get("global_step"),
        "rows_evaluated": gate.get("rows"),
        "metrics": gate.get("metrics", {}),
        "intervals": gate.get("intervals", {}),
        "measured": gate.get("measured", {}),
        "gate": gate.get("findings", []),
        "live_before": gate.get("live_version"),
        "version": (folder.read("promote") or {}).get("version"),
        "live_now": live,
        "removed": (folder.read("clean") or {}).get("removed", []),
        "seconds": lineage.seconds(folder),
    }


def _label_means(
    window: dict[str, Any], checks: dict[str, Any], gate: dict[str, Any]
) -> dict[str, dict[str, float]]:
    """`{label: {day: mean}}`. Without statistics of the days, the mean of the rows of the gate."""
    found = checks.get("label_means") or {}
    names = [day["name"] for day in window.get("evaluate", [])]
    days = " to ".join(dict.fromkeys([*names[:1], *names[-1:]]))
    of_gate = gate.get("label_means") or {}
    return found or {name: {days: mean} for name, mean in of_gate.items() if mean is not None}


def write(folder: CycleFolder, report: dict[str, Any]) -> None:
    """Writes `report.json` and `report.md`."""
    folder.write("report", report)
    documents.write_text(folder.at("report.md"), markdown(report))


def headline(report: dict[str, Any]) -> str:
    """The outcome of the cycle in one sentence."""
    cycle, before = report["cycle"], report["live_before"]
    live = f"version {before} stays live" if before is not None else "nothing is live yet"
    version, now = report["version"], report["live_now"]
    promoted = f"cycle {cycle} was promoted: version {version} is live"
    if now is not None and now != version:
        promoted = f"cycle {cycle} was promoted as version {version}; version {now} is live now"
    return {
        "promoted": promoted,
        "refused": f"cycle {cycle} was refused by the gate: {live}",
    }.get(report["outcome"], f"cycle {cycle} {report['outcome']}: {report['problem']}")


def markdown(report: dict[str, Any]) -> str:
    """The report as Markdown. The program prints the same text."""
    window = report["window"]
    lines = [f"# {headline(report)}", ""]
    if window["train"]:
        first, last = window["train"][0], window["train"][-1]
        lines += [
            f"- as of {report['as_of']}: {len(window['train'])} days from {first} to {last}, "
            f"{population(window['rows'], window.get('dropped', 0), 'row')}; evaluated on "
            f"{', '.join(window['evaluate'])}"
        ]
    lines += [f"- left out {day}: {reason}" for day, reason in window["left_out"].items()]
    for what in ("late", "rewritten"):
        if window[what]:
            lines.append(f"- {what}: {', '.join(window[what])}")
    lines += [f"- {found['verdict']}: {found['text']}" for found in report["checks"]]
    for name, words in report["vocabularies"].items():
        lines.append(
            f"- {name}: {words['words']:,} words, {words['new']:,} new, {words['moved']:,} moved, "
            f"{words['dropped']:,} dropped"
        )
    lines += [
        f"- {name}: statistics of the model that training starts from"
        for name in report.get("kept_statistics", ())
    ]
    start = report["start"]
    if start is not None:
        source = f" ({start['cycle'] or start['source']})" if start["source"] else ""
        reason = f": {_indented(start['reason'])}" if start["reason"] else ""
        counts = ", ".join(f"{n} {what}" for what, n in report["warm_start"].items())
        lines.append(
            f"- started from {start['kind']}{source}{reason}"
            + (f"; weights: {counts}" if counts else "")
        )
    if report["metrics"]:
        lines += ["", f"| metric, {report['rows_evaluated']:,} rows | live | candidate |"]
        lines.append("| --- | ---: | ---: |")
        for name, both in report["metrics"].items():
            lines.append(f"| {name} | {_number(both.get('live'))} | {_number(both['candidate'])} |")
        for name, value in report["measured"].items():
            lines.append(f"| {name} | | {_number(value)} |")
    if report["gate"]:
        lines += ["", *(f"- {found['sentence']}" for found in report["gate"])]
    elif report["metrics"]:
        lines += ["", "- the gate of the spec has no conditions, so every candidate goes live"]
    if report["seconds"]:
        seconds = ", ".join(f"{name} {value:.1f} s" for name, value in report["seconds"].items())
        lines += ["", f"Took {seconds}."]
    return "\n".join(lines) + "\n"


def _indented(text: str) -> str:
    """A text of several lines inside an item of a list."""
    return text.rstrip().replace("\n", "\n  ")


def _number(value: Optional[float]) -> str:
    return "" if value is None else f"{value:.6g}"


def reasons(report: dict[str, Any]) -> list[str]:
    """Why a cycle was not promoted: the failed conditions with their values, or the error."""
    failed = [found["sentence"] for found in report["gate"] if found["passed"] is False]
    return failed or ([report["problem"]] if report["problem"] else [])


def main_metrics(reports: Sequence[dict[str, Any]]) -> list[str]:
    """The metrics of the gate's conditions, and the first metric of each other objective."""
    compared = dict.fromkeys(name for report in reports for name in report["metrics"])
    judged = {found["text"].partition(" ")[0] for r in reports for found in r["gate"]}
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
    shared = ("cycle", "as of", "train days", "rows", "start", "warnings", "outcome", "version")
    rows = [(*shared, *(f"{name} {whose}" for name in metrics for whose in ("live", "candidate")))]
    for cycle, report in reports:
        version = report["version"]
        rows.append(
            (
                cycle.name,
                report["as_of"] or "",
                f"{len(report['window']['train'])}",
                f"{report['window']['rows']:,}",
                (report["start"] or {}).get("kind", ""),
                f"{len(report['checks'])}",
                cycle.outcome or report["outcome"],
                "" if version is None else f"{version}{' live' if version == live else ''}",
                *(
                    _number(report["metrics"].get(name, {}).get(whose))
                    for name in metrics
                    for whose in ("live", "candidate")
                ),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    ]
    for cycle, report in reports:
        lines += [f"cycle {cycle.name}: {_indented(text)}" for text in reasons(report)]
    return "\n".join(lines)


def of_cycle(folder: CycleFolder) -> dict[str, Any]:
    """The report of a cycle; if it has written none, what its finished stages say."""
    return folder.read("report") or document(folder, folder.outcome or "unfinished")
