"""UCI Bike Sharing: both counts in one model, by Poisson or squared error, linear or deep.

Whole days are for evaluation (`examples/bike_sharing/prepare.py` says why). A seed changes the
initial values and the order of rows. The mean Poisson deviance is 2 mean(y log(y / m) - y + m) for
labels y and predictions m. It is twice the difference between the objective's loss, mean(m - y log
m), and its value for m = y.
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
# Learning rates of the linear parts, and of the deep parts.
_RATES = {"Poisson": 0.05, "squared error": 0.5}
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
    head = ["in the worst seed, wide & deep is lower by", "than linear", "than linear with cross"]
    all_tables = "\n\n".join(tables)
    return f"""\
## Bike sharing

How many bikes do casual and registered users rent in an hour? One model learns both counts, as
Poisson rates or by squared error. In every month, the days up to the 19th are for training (10,886
hours) and the later days for evaluation (6,493 hours). Days stay whole because an hour is much like
the hour before it: a split by rows, or by a hash, would evaluate hours whose neighbors were in the
training data. All months are in both parts, so the result shows how well a model fills in days, and
does not forecast the growth of the next year. A seed changes the initial values and the order of
rows.

`linear` has single features (numbers also in buckets), the other linear model also has hour x
working day, and `wide & deep` has the single features and a DNN. All train for the same number of
steps.

{table(head, margins)}

{all_tables}

The linear models have converged: their exact solutions, computed with NumPy outside this program,
have RMSEs of 19.4 and 72.1 (Poisson) and 30.9 and 88.6 (least squares); with hour x working day,
18.2 and 50.3, and 27.5 and 67.7.

A DNN over all columns, without the wide part, was worse than the linear model for casual riders:
weekday, month and weather together nearly identify a day, and the DNN learned the days. So `deep`
has no month and no season; they are in `wide`. With dropout, a Poisson rate is too low: the mean of
exp(z + noise) is above exp(z), training compensates for it, and prediction has no noise.

{commands(SETTINGS)}

`examples/bike_sharing/prepare.py` makes the data. WORK/squared.yaml is the spec with
`head: regression` instead of `head: poisson`.
"""
