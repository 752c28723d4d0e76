"""UCI Bike Sharing: both counts in one model, by Poisson or squared error, linear or deep.

Whole days are held out (`examples/bike_sharing/prepare.py` says why). A seed changes the initial
values and the order of rows. The mean Poisson deviance is 2 mean(y log(y / m) - y + m) for labels y
and predictions m: twice what the objective's loss, mean(m - y log m), is above that of m = y.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Optional

import numpy as np
from quality_runs import ROOT, Line, Run, commands, over_seeds, seeds_table, table

NEEDS_DATA = True

_SPEC = "feature_specs/catalog/bike_sharing.yaml"
_FLAGFILE = "--flagfile=examples/bike_sharing/bike_sharing.flags"
_SPECS = {"Poisson": _SPEC, "squared error": "WORK/squared.yaml"}
_RATES = {"Poisson": 0.05, "squared error": 0.5}  # of linear parts; those of deep parts below
_DEEP_RATES = {"Poisson": 0.003, "squared error": 0.01}
_STEPS = 1275
_LABELS = ("casual", "registered")
_METRICS = tuple(
    f"{metric}/{label}"
    for metric in ("root_mean_squared_error", "loss", "prediction_mean")
    for label in _LABELS
)
_DEEP, _LINEAR, _CROSSED = "wide & deep", "linear", "linear with hour x working day"


def _settings() -> dict[str, Sequence[str]]:
    found: dict[str, Sequence[str]] = {}
    for loss, spec in _SPECS.items():
        given = [_FLAGFILE, f"--spec={spec}"]
        rate = f"learning_rate={_RATES[loss]}"
        found[f"{_DEEP}, {loss}"] = [
            *given, f"--model_params=linear_{rate}",
            f"--model_params=learning_rate={_DEEP_RATES[loss]}",
        ]  # fmt: skip
        for name, group in ((_LINEAR, "linear"), (_CROSSED, "wide")):
            found[f"{name}, {loss}"] = [
                *given, "--model=linear", "--model_params=", f"--model_params=group={group}",
                "--model_params=optimizer=adam", f"--model_params={rate}",
                f"--model_params=schedule={{cosine: {{decay_steps: {_STEPS}}}}}",
            ]  # fmt: skip
    return found


SETTINGS = _settings()


def runs(work: str, data: Optional[str], seed: int, *, tiny: bool = False) -> Iterator[Run]:
    folder = os.path.join(work, "bikes")
    if not os.path.exists(f"{folder}/test.tfrecord"):
        command = [sys.executable, "examples/bike_sharing/prepare.py"]
        command += [f"--data_dir={data}/bike_sharing", f"--out_dir={folder}"]
        subprocess.run(command, check=True, cwd=ROOT)
    with open(os.path.join(ROOT, _SPEC), encoding="utf-8") as file:
        text = file.read().replace("head: poisson", "head: regression")
    with open(f"{folder}/squared.yaml", "w", encoding="utf-8") as file:
        file.write(text)
    files = f"--train_files={folder}/train.tfrecord", f"--eval_files={folder}/test.tfrecord"
    length = ["--max_steps=20"] if tiny else []
    constants = _saturated(f"{data}/bike_sharing")
    for name, given in SETTINGS.items():
        given = [flag.replace("WORK", folder) for flag in given]
        yield Run("bikes", name, seed, (*given, *files, *length), _METRICS, constants)


def _saturated(folder: str) -> dict[str, float]:
    """By label, mean(y - y log y): the Poisson loss of predictions that are the labels."""
    from examples.bike_sharing import prepare

    path = os.path.join(folder, "hour.csv")
    rows = list(prepare.rows(path if os.path.exists(path) else path + ".gz", train=False))
    return {
        f"saturated/{label}": float(np.mean([y - y * np.log(max(y, 1)) for y in counts]))
        for label, counts in ((label, [row[label] for row in rows]) for label in _LABELS)
    }


def _with_deviance(line: Line) -> Line:
    metrics = dict(line.metrics)
    if line.name.endswith("Poisson"):
        for label in _LABELS:
            excess = metrics[f"loss/{label}"] - metrics[f"saturated/{label}"]
            metrics[f"deviance/{label}"] = 2 * excess
    return dataclasses.replace(line, metrics=metrics)


def _margin(lines: Sequence[Line], loss: str, metric: str, rival: str) -> float:
    """The least share of the seeds by which wide & deep is below a rival."""
    ours = over_seeds(lines, f"{_DEEP}, {loss}", metric)
    theirs = over_seeds(lines, f"{rival}, {loss}", metric)
    return min(1 - ours[seed] / theirs[seed] for seed in ours)


def section(lines: Sequence[Line]) -> str:
    lines = [_with_deviance(line) for line in lines]
    margins, tables = [], []
    for loss, metric, what in (
        ("Poisson", "deviance", "mean Poisson deviance"),
        ("Poisson", "root_mean_squared_error", "RMSE"),
        ("squared error", "root_mean_squared_error", "RMSE"),
    ):
        for label in _LABELS:
            key = f"{metric}/{label}"
            shown = (f"{_margin(lines, loss, key, rival):.1%}" for rival in (_LINEAR, _CROSSED))
            margins.append([f"{label}, {loss}, {what}", *shown])
            names = [name for name in SETTINGS if name.endswith(loss)]
            tables.append(seeds_table(lines, names, key, f"{label}: {what}", "{:.2f}".format))
    head = ["wide & deep is lower, in the worst seed, by", "than linear", "than linear with cross"]
    all_tables = "\n\n".join(tables)
    return f"""\
## Bike sharing

How many bikes do casual and registered users rent in an hour? One model learns both counts, as
Poisson rates or by squared error. Of every month the days up to the 19th train (10,886 hours) and
the others are scored (6,493). Days stay whole because an hour is much like the one before it: a
split by rows, or by a hash, would score hours whose neighbours were trained on. All months are in
both parts, so this is how well a model fills in days and not a forecast of a next year's growth. A
seed changes the initial values and the order of rows.

`linear` has single features (numbers also in buckets), the other linear model also hour x working
day, and `wide & deep` the single features beside a DNN, all in as many steps.

{table(head, margins)}

{all_tables}

The linear models are learned out: solved exactly with NumPy, which is no part of this program, they
have RMSEs of 19.4 and 72.1 (Poisson) and 30.9 and 88.6 (least squares), with hour x working day
18.2 and 50.3, 27.5 and 67.7.

A DNN alone, over all columns, was worse than the linear model for casual riders: weekday, month and
weather together nearly name a day, and it learned the days. So `deep` has no month and no season,
which are in `wide`. With dropout a Poisson rate comes out too low: the mean of exp(z + noise) is
above exp(z), training makes up for it, and prediction has no noise.

{commands(SETTINGS)}

The data are made by `examples/bike_sharing/prepare.py`. WORK/squared.yaml is the spec with
`head: regression` in the place of `head: poisson`.
"""
