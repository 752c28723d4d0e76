"""Simulates a month of retraining: the real command every night, on data with errors.

    python tools/simulate_retraining.py --work_dir=/tmp/month                  30 days
    python tools/simulate_retraining.py --work_dir=/tmp/week --days=11         5 nights

With --against_scratch, each training that starts from a model is compared with a training from
scratch on the same days, which has three times as many epochs.

Each night, the day's folder of the default data appears, with new items, and the command of
examples/retraining runs with --as_of as its clock. From day 15 on, clicks are about twice as
frequent. Day 8 never comes. A file of day 12 is damaged until the day is written again on day 14.
The labels of day 20 are all zero. The program prints a Markdown table with one row for each night;
with --docs, it replaces the table in docs/guides/retraining.md. It exits with status 1 if a night
ends with an unexpected exit status, without a live version, with a bad day or file in its window,
with a version that is worse than the gate allows, or with a training that took more than a third of
the steps of the training from scratch, or whose AUC is more than 0.005 lower.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

MISSING, CORRUPT, REPAIRED, ZERO, DRIFT = 8, 12, 14, 20, 15
FIRST_NIGHT = 7  # Five days to train on, one for evaluation, one to spare.
SCRATCH_EPOCHS = 3  # As --epochs of examples/retraining; what it starts from a model reads once.
AUC_TOLERANCE = 0.005
MAX_LOSS = 0.03  # As in the spec of examples/retraining.
MARKS = ("<!-- simulation -->", "<!-- end of simulation -->")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work_dir", required=True)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--rows_a_day", type=int, default=2500)
    parser.add_argument("--against_scratch", action="store_true")
    parser.add_argument("--docs", action="store_true")
    options = parser.parse_args(argv)
    work = pathlib.Path(options.work_dir)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    nights = []
    for result in simulate(work, options.days, options.rows_a_day):
        if options.against_scratch:
            compare_with_scratch(work, result)
        result["wrong"] = wrong_of(result)
        print(
            f"{result['day']}: exit {result['exit']}, {result['seconds']:.0f} s {result['wrong']}",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        nights.append(result)
    table = as_table(nights)
    print(table)
    if options.docs:
        write_docs(table)
    wrong = [night for night in nights if night["wrong"]]
    for night in wrong:
        print(f"{night['day']}: {night['wrong']}\n{night['output']}", file=sys.stderr)
    return 1 if wrong else 0


def simulate(work: pathlib.Path, days: int, rows: int) -> Iterator[dict[str, Any]]:
    """Yields what became of each night."""
    from input_pipelines.synthetic import impression_log

    impression_log.generate(
        str(work / "made"), rows=days * rows, days=days, shards_per_day=2, first_day="2026-01-01"
    )
    flags = (ROOT / "examples/retraining/retrain.flags").read_text()
    kept = [line for line in flags.splitlines() if "generate_default_data" not in line]
    (work / "night.flags").write_text("\n".join(kept) + "\n")
    for day in range(1, days + 1):
        arrive(work, day)
        if day == REPAIRED and days >= REPAIRED:
            arrive(work, CORRUPT, repaired=True)
        if day >= FIRST_NIGHT:
            yield night(work, day)


def arrive(work: pathlib.Path, day: int, *, repaired: bool = False) -> None:
    """A day's folder appears, as that day is; under another name until it is whole."""
    if day == MISSING:
        return
    name = f"dt=2026-01-{day:02d}"
    staged, final = work / f".tmp-{name}", work / "data" / "ads" / name
    shutil.copytree(work / "made" / name, staged)
    for path in sorted(staged.glob("*.tfrecord")):
        if day == ZERO or day >= DRIFT:
            relabel(path, day)
    if day == CORRUPT and not repaired:
        path = sorted(staged.glob("*.tfrecord"))[0]
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(bytes(data))
    shutil.rmtree(final, ignore_errors=True)
    final.parent.mkdir(parents=True, exist_ok=True)
    staged.rename(final)


def relabel(path: pathlib.Path, day: int) -> None:
    """All labels 0, or a second chance of a click with the record's own probability."""
    import tensorflow as tf

    rng = random.Random(f"{day} {path.name}")
    records = []
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        example = tf.train.Example.FromString(record)
        feature = example.features.feature
        click = feature["click"].int64_list.value
        if day == ZERO:
            click[0] = 0
        elif rng.random() < feature["true_click_probability"].float_list.value[0]:
            click[0] = 1
        records.append(example.SerializeToString(deterministic=True))
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def night(work: pathlib.Path, day: int) -> dict[str, Any]:
    """Runs the command once."""
    begun = time.monotonic()
    done = subprocess.run(
        [
            sys.executable, str(ROOT / "run.py"), "--flagfile=night.flags", "--mode=retrain",
            f"--spec={ROOT}/examples/retraining/spec.yaml", f"--as_of=2026-01-{day:02d}",
            "--prometheus_file=retraining.prom",
        ],
        cwd=work, capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    result: dict[str, Any] = {
        "day": f"2026-01-{day:02d}", "exit": done.returncode, "output": done.stdout + done.stderr,
        "seconds": time.monotonic() - begun, "report": {}, "scratch": None,
    }  # fmt: skip
    cycles = sorted((work / "runs/retraining/cycles").glob("*/report.json"))
    if cycles and done.returncode != 99:
        result["report"] = json.loads(cycles[-1].read_text())
    versions = sorted(int(p) for p in os.listdir(work / "runs/retraining/serving") if p.isdigit())
    result["live"] = versions[-1] if versions else None
    return result


def compare_with_scratch(work: pathlib.Path, result: dict[str, Any]) -> None:
    """Trains from scratch on the days of a night that started from a model."""
    if (result["report"].get("start") or {}).get("source") is None:
        return
    train = work / "runs/retraining/cycles" / result["report"]["cycle"] / "train"
    flags = (train / "flags.txt").read_text().splitlines()
    names = ("--model_dir=", "--warm_start_from=", "--epochs=", "--exporters=")
    kept = [line for line in flags if not line.startswith(names)]
    kept += [f"--model_dir={work}/scratch", f"--epochs={SCRATCH_EPOCHS}"]
    (work / "scratch.flags").write_text("\n".join(kept) + "\n")
    shutil.rmtree(work / "scratch", ignore_errors=True)
    subprocess.run(
        [sys.executable, str(ROOT / "run.py"), f"--flagfile={work}/scratch.flags"],
        cwd=work, capture_output=True, text=True, timeout=1800, check=True,
    )  # fmt: skip
    ours, theirs = (
        json.loads((folder / "result.json").read_text()) for folder in (train, work / "scratch")
    )
    result["scratch"] = {
        "steps": ours["global_step"], "scratch_steps": theirs["global_step"],
        "gain": ours["metrics"]["auc/click"] - theirs["metrics"]["auc/click"],
    }  # fmt: skip


def wrong_of(result: dict[str, Any]) -> str:
    """What is wrong with a night; empty if nothing is."""
    day, report, scratch = int(result["day"][-2:]), result["report"], result["scratch"]
    expected = {99} if day in (MISSING, ZERO) else {0, 77}
    if result["exit"] not in expected:
        return f"exit status {result['exit']}, expected one of {sorted(expected)}"
    if result["live"] is None:
        return "no model is live"
    if not report:
        return ""
    used = {int(name[-2:]) for name in report["window"]["train"] + report["window"]["evaluate"]}
    if used & {MISSING, ZERO}:
        return f"a bad day is in the window: {sorted(used)}"
    left_out = report["window"]["left_out"]
    corrupt = [text for name, text in left_out.items() if f"2026-01-{CORRUPT:02d}" in name]
    if day < REPAIRED and CORRUPT in used and not any("damaged" in text for text in corrupt):
        return "a damaged file is in the window"
    lost = losses_beyond_the_gate(report)
    if lost:
        return f"promoted though {lost}"
    if scratch is not None and scratch["steps"] > math.ceil(scratch["scratch_steps"] / 3):
        return f"took {scratch['steps']} steps, scratch {scratch['scratch_steps']}"
    if scratch is not None and scratch["gain"] < -AUC_TOLERANCE:
        return f"the AUC is {-scratch['gain']:.4f} lower than the AUC of a training from scratch"
    return ""


def losses_beyond_the_gate(report: dict[str, Any]) -> str:
    """Where a promoted model is worse than the live one by more than the spec allows."""
    both = report["metrics"]["auc/click"]
    if report["outcome"] != "promoted" or both.get("live") is None:
        return ""
    lost = both["live"] - both["candidate"]
    return f"AUC fell by {lost:.4f}" if lost > MAX_LOSS else ""


def as_table(nights: Sequence[dict[str, Any]]) -> str:
    """The nights in Markdown."""
    lines = [
        "| as of | exit | cycle | trained on | new words | steps | steps from scratch | AUC live | "
        "AUC candidate | AUC gain | calibration | outcome | live version | notes on days |",
        "| --- | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | "
        "--- |",
    ]
    for result in nights:
        report = result["report"]
        window = report.get("window", {})
        metrics = report.get("metrics", {})
        scratch = result["scratch"] or {}
        words = [entry["new"] for entry in report.get("vocabularies", {}).values()]
        days = window.get("train", [])
        left_out = window.get("left_out", {}).items()
        notes = [f"{day_of(name)}: {reason_of(text)}" for name, text in left_out]
        notes += [f"{day[-2:]} was written again" for day in window.get("rewritten", [])]
        auc = metrics.get("auc/click", {})
        cells = [
            result["day"], str(result["exit"]), report.get("cycle", ""),
            f"{days[0][-2:]} to {days[-1][-2:]}" if days else "", "".join(map(str, words)),
            str(report.get("global_step", "")), str(scratch.get("scratch_steps", "")),
            number(auc.get("live")), number(auc.get("candidate")),
            f"{scratch['gain']:+.3f}" if scratch else "",
            number(metrics.get("calibration/click", {}).get("candidate")),
            report.get("outcome", "nothing to do" if result["exit"] == 99 else ""),
            str(result["live"]), "; ".join(notes),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def day_of(name: str) -> str:
    """The day of a period, or of the path of a file."""
    return re.findall(r"2026-01-(\d\d)", name)[-1]


def reason_of(text: str) -> str:
    """A reason in few words."""
    if "damaged" in text:
        return "a damaged file"
    text = text.removeprefix("it is ").removeprefix("it ")
    return text.replace("the mean of label 'click'", "mean of click")


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def write_docs(table: str) -> None:
    path = ROOT / "docs" / "guides" / "retraining.md"
    text = path.read_text(encoding="utf-8")
    pattern = re.compile(f"({re.escape(MARKS[0])}\n).*({re.escape(MARKS[1])})", re.S)
    path.write_text(pattern.sub(lambda m: f"{m[1]}\n{table}\n\n{m[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
