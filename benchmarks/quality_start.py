"""The start values of embeddings: three standard deviations, for three models on three data sets.

The models are fm, deepfm and dnn with the kit's default parameters. All embeddings have 8
dimensions and start from a truncated normal distribution with the standard deviation 0.01, 0.05 or
1/sqrt(8) = 0.354, the kit's default. A seed changes the initial values and the order of rows. The
advertising log has 20,000 rows a day, and most of its items are rare.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

import yaml
from quality_runs import ROOT, Line, Run, commands, over_seeds, table

NEEDS_DATA = True

STDDEVS = {"0.01": 0.01, "0.05": 0.05, "1/sqrt(8)": 8**-0.5}
MODELS = ("fm", "deepfm", "dnn")
_DIMENSION = 8
_GROUPS = {
    "fm": ("wide_group=first", "fields_group=fields"),
    "deepfm": ("wide_group=first", "fields_group=fields", "deep_group=all"),
    "dnn": ("group=all",),
}


class _Data(NamedTuple):
    """A data set.

    Attributes:
      spec: its spec in the catalog.
      fields: the columns of ids that become fields.
      numbers: the numbers that the DNN also reads.
      objective: the objective that is learned; the spec keeps no other.
      metrics: (metric, whether more is better, decimals).
      flags: how long the training is, and what else its loss needs.
    """

    spec: str
    fields: tuple[str, ...]
    numbers: tuple[str, ...]
    objective: str
    metrics: tuple[tuple[str, bool, int], ...]
    flags: tuple[str, ...]


DATA = {
    "UCI Adult": _Data(
        "adult",
        ("age_bucket", "education_step", "gain_bucket", "loss_bucket", "hours_bucket", "workclass",
         "marital", "relationship", "race", "gender", "job", "country"),
        ("age", "education_num", "gain", "loss", "hours"), "income",
        (("auc", True, 4), ("loss", False, 4)), ("--epochs=2",),
    ),
    "Bike sharing": _Data(
        "bike_sharing",
        ("year", "hour", "holiday", "weekday", "working", "weather", "temp_bucket", "hum_bucket"),
        ("temp", "atemp", "hum", "windspeed"), "registered",
        (("root_mean_squared_error", False, 1), ("loss", False, 2)),
        ("--epochs=6", "--model_params=clip_norm=100"),  # The gradient of exp(z) may be infinite.
    ),
    "Advertising log": _Data(
        "ads",
        ("age", "country", "device", "hour", "category", "interest", "item"),
        ("price", "price_bucket"), "click",
        (("auc", True, 4), ("loss", False, 4)), ("--epochs=2",),
    ),
}  # fmt: skip

_PLACES = {"UCI Adult": "adult", "Bike sharing": "bikes", "Advertising log": "ads_start"}


def _flags(data: str, model: str, stddev: str) -> list[str]:
    return [
        f"--spec=WORK/{_PLACES[data]}/start_{STDDEVS[stddev]:.2g}.json", f"--model={model}",
        *(f"--model_params={group}" for group in _GROUPS[model]),
        *DATA[data].flags, "--batch_size=128",
    ]  # fmt: skip


SETTINGS: dict[str, Sequence[str]] = {
    f"{data}, {model}, {stddev}": _flags(data, model, stddev)
    for data in DATA
    for model in MODELS
    for stddev in STDDEVS
}


def runs(work: str, data: Optional[str], seed: int, *, tiny: bool = False) -> Iterator[Run]:
    for name, given in DATA.items():
        folder = os.path.join(work, _PLACES[name])
        train, test = _records(name, folder, data)
        for stddev in STDDEVS.values():
            _write(_spec(given, stddev), f"{folder}/start_{stddev:.2g}.json")
        files = f"--train_files={train}", f"--eval_files={test}"
        length = ["--max_steps=20"] if tiny else []
        metrics = tuple(f"{metric}/{given.objective}" for metric, _, _ in given.metrics)
        for setting, flags in SETTINGS.items():
            if setting.startswith(f"{name},"):
                flags = [flag.replace("WORK", work) for flag in flags]
                yield Run("start", setting, seed, (*flags, *files, *length), metrics)


def _records(name: str, folder: str, data: Optional[str]) -> tuple[str, str]:
    """The files for training and evaluation, which are made if they do not exist."""
    if name == "Advertising log":
        if not os.path.exists(folder):
            from input_pipelines.synthetic import impression_log

            impression_log.generate(folder, rows=80_000, days=4, shards_per_day=1, seed=1)
        *train, test = sorted(e.path for e in os.scandir(folder) if e.is_dir())
        return ",".join(f"{day}/*.tfrecord" for day in train), f"{test}/*.tfrecord"
    if not os.path.exists(f"{folder}/test.tfrecord"):
        example = "adult" if name == "UCI Adult" else "bike_sharing"
        command = [sys.executable, f"examples/{example}/prepare.py"]
        command += [f"--data_dir={data}/{example}", f"--out_dir={folder}"]
        subprocess.run(command, check=True, cwd=ROOT)
    return f"{folder}/train.tfrecord", f"{folder}/test.tfrecord"


def _spec(data: _Data, stddev: float) -> dict[str, Any]:
    """The spec of the catalog, with an embedding of each field and one objective."""
    with open(os.path.join(ROOT, f"feature_specs/catalog/{data.spec}.yaml")) as file:
        spec = yaml.safe_load(file)
    start = {"truncated_normal": {"stddev": stddev}}
    embeddings = {
        f"{name}_start": {"embedding": name, "dimension": _DIMENSION, "initializer": start}
        for name in data.fields
    }
    spec["columns"] = {**_reached(spec["columns"], (*data.fields, *data.numbers)), **embeddings}
    spec["groups"] = {
        "first": list(data.fields),
        "fields": list(embeddings),
        "all": [*data.numbers, *embeddings],
    }
    spec["objectives"] = {data.objective: spec["objectives"][data.objective]}
    spec["labels"] = {data.objective: spec["labels"][data.objective]}
    parts = json.dumps([spec["columns"], spec["labels"]])
    spec["features"] = {k: v for k, v in spec["features"].items() if f'"{k}"' in parts}
    spec.pop("ignored", None)
    return spec


def _reached(columns: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The columns of these names, and the columns that they read."""
    found: dict[str, Any] = {}
    for name in names:
        if name not in found:
            found[name] = columns[name]
            read = [v for v in columns[name].values() if isinstance(v, str) and v in columns]
            found.update(_reached(columns, [each for each in read if each != name]))
    return found


def _write(spec: Mapping[str, Any], path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(spec, file, indent=1)


def section(lines: Sequence[Line]) -> str:
    rows = []
    for name, data in DATA.items():
        for model in MODELS:
            for metric, more, decimals in data.metrics:
                cells = []
                for stddev in STDDEVS:
                    key = f"{metric}/{data.objective}"
                    cells.append(over_seeds(lines, f"{name}, {model}, {stddev}", key))
                means = [sum(found.values()) / len(found) for found in cells]
                best = max(means) if more else min(means)
                rows.append([
                    f"{name}, {model}, {metric}",
                    *(_shown(mean, found, best, decimals) for mean, found in zip(means, cells)),
                ])  # fmt: skip
    head = ["data, model, metric", *STDDEVS]
    shown = {name: SETTINGS[name] for name in SETTINGS if name.endswith("deepfm, 0.01")}
    return f"""\
## Start values of embeddings

The standard deviation of the start values, a truncated normal distribution: 0.01, 0.05, and the
default 1/sqrt(dimension), as in `tf.feature_column.embedding_column`. All embeddings have
{_DIMENSION} dimensions; all other parameters have their defaults. A cell has the mean of the
seeds, and the smallest and the largest of them. The best mean of a row is bold.
`python benchmarks/quality.py --data FOLDER --only start --seeds 3` measures this part. One of its
commands for each data set is below.

By the mean, 0.05 is best for fm and deepfm on all three data sets; on bike sharing, the ranges of
deepfm overlap. For dnn, the default is best on Adult and on the advertising log, and on bike
sharing the seeds differ more than the start values do. The start is a field of the column, which
all models share, so the default stays. Give the fields of fm and deepfm
`initializer: {{truncated_normal: {{stddev: 0.05}}}}`.

{table(head, rows)}

{commands(shown)}
"""


def _shown(mean: float, found: Mapping[int, float], best: float, decimals: int) -> str:
    text = f"{mean:.{decimals}f}"
    text = f"**{text}**" if mean == best else text
    return f"{text} ({min(found.values()):.{decimals}f} to {max(found.values()):.{decimals}f})"
