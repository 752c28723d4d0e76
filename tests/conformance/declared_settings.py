"""For each setting: configs that differ in it alone, and the files that they read.

`cases(mode, name, folder)` takes other values from the type of a setting, or from `BY_HAND`. A
setting whose type shows no valid value needs an entry there.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
import yaml

import estimator_kit as ek
from estimator_kit.config.areas import AllSettings
from estimator_kit.config.modes import settings_of
from input_pipelines.record_files import writing
from tests.conformance.declared import by_type
from tests.conformance.observed import example
from tests.conformance.observed_settings import OBSERVED, ROWS

Values = dict[str, Any]

_DOCUMENT = {
    "features": {"number": {"dtype": "int64"}, "price": {"dtype": "float32"},
                 "city": {"dtype": "string"}},
    "columns": {"cost": {"numeric": "price"}, "item": {"vocabulary": "city", "file": "words.txt"},
                "town_hot": {"indicator": "item"}},
    "groups": {"deep": ["cost", "town_hot"], "wide": ["cost"], "user": ["cost"],
               "item": ["town_hot"]},
    "raw": ["number"],
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}  # fmt: skip
_PARAMS = {"hidden_units": [8, 8], "batch_norm": True, "optimizer": "adagrad"}
_TOWERS = {"hidden_units": [2], "dimension": 2}
# Of a conversion: rows of users with a time.
_TABLE = [
    {**row, "user": "ab"[i % 2], "time": 9 - i, "tags": ["x"] * (i % 3), "note": " a|b"}
    for i, row in enumerate(ROWS)
]


def write_files(folder: pathlib.Path) -> None:
    """Writes spec, records, days, tables, and a model that has trained for two steps."""
    (folder / "spec.yaml").write_text(yaml.safe_dump(_DOCUMENT))
    (folder / "words.txt").write_text("oslo\n")
    rows = [{**ROWS[i % 6], "number": i} for i in range(40)]
    for name, part in {"a": rows[:8], "b": rows[8:12], "c": rows[12:18], "d": rows[18:24]}.items():
        writing.write_examples(f"{folder}/{name}.tfrecord", part)
    for name in "be":  # The twins bad_b and bad_e have a record that cannot be parsed.
        with tf.io.TFRecordWriter(f"{folder}/bad_{name}.tfrecord") as writer:
            for record in [*map(example, rows[6:9]), b"no record"]:
                writer.write(record)
    for day in range(1, 6):
        place = folder / "days" / f"dt=2026-01-0{day}"
        place.mkdir(parents=True)
        writing.write_examples(f"{place}/x.tfrecord", rows[24 + 3 * day - 3 : 24 + 3 * day])
        (place / "_SUCCESS").touch()
    for hour in range(4):
        place = folder / "hours" / f"ts=2026-01-04T0{hour}-00"
        place.mkdir(parents=True)
        writing.write_examples(f"{place}/x.tfrecord", rows[24 + 3 * hour : 27 + 3 * hour])
        (place / "_SUCCESS").touch()
    lines = "".join(json.dumps(row) + "\n" for row in _TABLE)
    (folder / "rows.jsonl").write_text(lines)
    (folder / "more.jsonl").write_text(lines[: lines.index("\n") + 1])
    long = json.dumps({"note": "a" * 500_000}) + "\n"
    (folder / "long.jsonl").write_text(long * 4)
    (folder / "rows.csv").write_text("y;note\n1; a|b\n#2;c\n?;d\n")
    (folder / "commas.csv").write_text("y;note\n1,200;a\n")
    training = {**base("train_and_evaluate", folder), "model_dir": f"{folder}/trained"}
    ek.run(ek.ExperimentConfig(**{**training, "seed": 5, "max_steps": 2, "exporters": ()}))


def base(mode: str, folder: pathlib.Path) -> Values:
    """The config of a mode that cases start from."""
    model = {"spec": f"{folder}/spec.yaml", "model": "dnn", "model_params": _PARAMS}
    found: dict[str, Values] = {
        "train_and_evaluate": {
            **model, "train_files": (f"{folder}/a.tfrecord", f"{folder}/b.tfrecord"), "epochs": 2,
            "eval_files": (f"{folder}/c.tfrecord",), "batch_size": 4,
            "exporters": ("best", "best_k", "final", "latest", "step:5"),
        },
        "evaluate": {**model, "eval_files": (f"{folder}/c.tfrecord",)},
        "retrain": {**model, "train_files": (f"{folder}/days/dt=*/*.tfrecord",), "epochs": 2,
                    "window": "2d", "as_of": "2026-01-04", "min_count": 1},
        "convert": {"convert_files": (f"{folder}/rows.jsonl",), "processes": 1,
                    "convert_dir": f"{folder}/converted"},
        "predict": {**model, "predict_files": (f"{folder}/c.tfrecord",),
                    "predict_output": f"{folder}/answers.jsonl"},
    }  # fmt: skip
    place = "trained" if mode == "predict" else "run"
    without = {} if mode == "convert" else {"model_dir": f"{folder}/{place}"}
    return {"mode": mode, **without, **found[mode]}


Case = tuple[Values, Values]


def _cases(**values: Any) -> list[Case]:
    """Cases that change nothing else."""
    return [({}, values)]


def _both(before: Values, **after: Any) -> list[Case]:
    return [(before, {**before, **after})]


def by_hand(folder: pathlib.Path) -> Mapping[str, list[Case]]:
    """What a type does not show: pairs of changes of `base`, by setting or `mode.setting`."""
    a, b, c, d, bad, worse = (
        f"{folder}/{name}.tfrecord" for name in ("a", "b", "c", "d", "bad_b", "bad_e")
    )
    days = f"{folder}/days/dt=*/x.tfrecord"
    again = f"{folder}/../{folder.name}"  # The same place by another name.
    here = "tests.conformance.observed_settings"
    damaged = {"train_files": (a, bad), "eval_files": (c, worse),
               "corrupt_data_policy": "skip_record"}  # fmt: skip
    chief = {"job_name": "chief", "worker_hosts": ("h:1", "h:2"), "ps_hosts": ("h:3",)}
    sync = {**chief, "strategy": "sync_replicas"}
    warm = {"warm_start_from": f"{folder}/trained"}
    bias = [f"dnn/hiddenlayer_{layer}/bias" for layer in (0, 1)]
    mix = {"train_files": (), "train_mix": (f"{a}=1", f"{b}=1")}
    own = {"train_files": (), "eval_files": (), "input_fn": f"{here}:own_rows"}
    towers = {"model": "two_tower", "model_params": _TOWERS}
    table = {"convert_files": (f"{folder}/rows.csv",), "csv_delimiter": ";"}
    split = {"split": "key:user", "split_eval": 0.5}
    timed = {"split": "time:time", "split_eval": "5"}
    items = {"sequence_by": "user", "order_by": "time", "sequence_columns": ("city",),
             "processes": None}  # fmt: skip
    return {
        # Data.
        "train_files": _cases(train_files=(a,)),
        "train_days": _both({"train_files": (days,), "train_days": "2026-01-01"},
                            train_days="2026-01-02"),
        "train_mix": _both(mix, train_mix=(f"{a}=1", f"{b}=3")),
        "input_fn": _both(own, input_fn=f"{here}:other_rows"),
        "input_version": _both(own, input_version="1"),
        "eval_files": _cases(eval_files=(d,)),
        "eval_days": _both({"eval_files": (days,), "eval_days": "2026-01-01"},
                           eval_days="2026-01-02"),
        "predict_files": _cases(predict_files=(f"{again}/c.tfrecord",)),
        "keep_negatives": _cases(keep_negatives="0.5"),
        "corrupt_data_policy": _both(damaged, corrupt_data_policy="quarantine"),
        "max_bad": [({**damaged, "max_bad": n}, {**damaged, "max_bad": m})
                    for n, m in ((5, 6), (5, 0), (0.5, 0.6), ("50%", "1%"))],
        "input_cache_dir": _cases(input_cache_dir=f"{folder}/cache"),
        "input_cache_gib": _both({"input_cache_dir": f"{folder}/cache"}, input_cache_gib=1.0),
        # Training.
        "spec": _cases(spec=f"{again}/spec.yaml"),
        "model": _both({"model_params": {}}, model="two_tower"),
        "model_params": _cases(model_params={**_PARAMS, "activation": "relu"}),
        "model_dir": _cases(model_dir=f"{folder}/elsewhere"),
        "predict.model_dir": _cases(model_dir=f"{again}/trained"),
        "max_steps": _cases(max_steps=3),
        "save_checkpoints_steps": _cases(save_checkpoints_steps=7),
        "save_checkpoints_secs": _cases(save_checkpoints_secs=7),
        "warm_start_from": _cases(**warm),
        "warm_start_mode": [(warm, {**warm, "warm_start_mode": mode})
                            for mode in ("weights", "all_but_step", "all")],
        "warm_start_vars": _both(warm, warm_start_vars="dnn/hiddenlayer_0/.*"),
        "warm_start_rename": _both(warm, warm_start_rename=(f"{bias[0]}={bias[1]}",
                                                            f"{bias[1]}={bias[0]}")),
        "mixed_precision": _cases(mixed_precision="bfloat16"),
        "profile": _cases(profile="1..2"),
        # Clusters and devices.
        "strategy": _both({**chief, "strategy": "parameter_server"}, strategy="sync_replicas"),
        "job_name": _cases(**chief),
        "task_index": _both({**chief, "job_name": "worker", "worker_hosts": ("h:1", "h:2", "h:4")},
                            task_index=1),
        "worker_hosts": _both(chief, worker_hosts=("h:1", "h:2", "h:4")),
        "ps_hosts": _both(chief, ps_hosts=("h:3", "h:4")),
        "mirrored_devices": _both({"strategy": "mirrored"}, mirrored_devices=2),
        "backup_workers": _both(sync, backup_workers=1),
        "partition_mib": _both(chief, partition_mib=1.0),
        # Evaluation and exports.
        "eval_batch_size": _both(towers, eval_batch_size=2),
        "eval_steps": _both({"eval_batch_size": 2}, eval_steps=1),
        "early_stopping_metric": _cases(early_stopping_metric="loss"),
        "early_stopping_patience": _both({"early_stopping_metric": "loss"},
                                         early_stopping_patience=4),
        "early_stopping_min_delta": _both({"early_stopping_metric": "loss"},
                                          early_stopping_min_delta=3.0),
        "exporters": _cases(exporters=("step:5", "best", "best_k", "latest")),
        "best_metric": [*_cases(best_metric="auc/y"), *_cases(best_metric="max:loss")],
        "default_signature": _cases(default_signature="predict_raw"),
        "slices": _cases(slices=("city",)),
        "reference_models": _cases(reference_models=("constant",)),
        "prometheus_file": _cases(prometheus_file=f"{folder}/metrics.prom"),
        "tracking": _cases(tracking="mlflow"),
        # Retraining.
        "as_of": _cases(as_of="2026-01-05"),
        "retrain.corrupt_data_policy": _cases(corrupt_data_policy="quarantine"),
        "period": _both({"train_files": (f"{folder}/hours/ts=*/x.tfrecord",), "window": "2h",
                         "period": "1h"}, period="2h"),
        "window": _cases(window="1d"),
        "eval_window": _cases(eval_window="2d"),
        "window_min": [*_cases(window_min=("2rows",)), *_cases(window_min=("100rows",)),
                       ({}, {"window_min": ("2d",)}),
                       ({"window": "7d"}, {"window": "7d", "window_min": ("6d",)})],
        "window_max_age": _cases(window_max_age="1d"),
        "stage_limits": _cases(stage_limits=("train=60",)),
        "retrain.min_count": _cases(min_count=3),
        # Prediction.
        "predict_output": _cases(predict_output=f"{folder}/others.jsonl"),
        "predict_limit": _cases(predict_limit=2),
        "predict_outputs": _cases(predict_outputs=("y/logits",)),
        "keep_columns": _cases(keep_columns=("city",)),
        # Conversion.
        "convert.seed": _both({"convert_order": "shuffled"}, seed=2),
        "convert_files": _cases(convert_files=(f"{folder}/more.jsonl",)),
        "convert_dir": _cases(convert_dir=f"{folder}/elsewhere"),
        "shard_mib": _both({"convert_files": (f"{folder}/long.jsonl",)}, shard_mib=1),
        "split": [*_both(split, split="key:time"), *_both(timed, split="time:number")],
        "split_eval": [*_both(split, split_eval=0.1), *_both(timed, split_eval="7")],
        "split_test": [*_both(split, split_test=0.1), *_both(timed, split_test="7")],
        "step_columns": _cases(step_columns=("tags",)),
        "derive_labels": _cases(derive_labels=("cheap=price:above:1",)),
        "sequence_by": _both(items, sequence_by="note"),
        "order_by": _both(items, order_by="number"),
        "sequence_columns": _both(items, sequence_columns=("price",)),
        "sequence_steps": _both(items, sequence_steps=1),
        "targets": _both(items, targets="leave_one_out"),
        # Tables.
        "csv_columns": _both(table, csv_columns=("note", "y")),
        "csv_delimiter": _both(table, csv_delimiter=","),
        "csv_skip_spaces": _both(table, csv_skip_spaces=True),
        "csv_comment": _both(table, csv_comment="#"),
        "csv_missing": _both(table, csv_missing=("?",)),
        "csv_list_separator": _both(table, csv_list_separator="|"),
        "csv_thousands": _both({**table, "convert_files": (f"{folder}/commas.csv",),
                                "csv_thousands": False}, csv_thousands=True),
    }  # fmt: skip


def modes_of(name: str, folder: pathlib.Path) -> list[str]:
    """The modes in which a setting is compared: others only if a training does not read it."""
    reading = [mode for mode in OBSERVED if name in settings_of(mode)]
    first = reading[:1] if reading[:1] == ["train_and_evaluate"] else reading
    more = [mode for mode in OBSERVED if f"{mode}.{name}" in by_hand(folder)]
    return list(dict.fromkeys([*first, *more]))


def cases(mode: str, name: str, folder: pathlib.Path) -> Iterator[Case]:
    """Pairs of valid values for configs of a mode that differ in a setting."""
    start, hand = base(mode, folder), by_hand(folder)
    pairs = hand.get(f"{mode}.{name}", hand.get(name))
    if pairs is None:
        field = AllSettings.model_fields[name]
        value = start.get(name, field.default)
        others = by_type(field.annotation, value)
        if value is None or value == ():
            others = iter([_of_none(field.annotation)])
        pairs = [({}, {name: other}) for other in others]
    for before, after in pairs:
        yield {**start, **before}, {**start, **after}


def _of_none(annotation: Any) -> Any:
    """A value of a setting that has none."""
    text = str(annotation)
    return ("other",) if "tuple" in text else 7 if "int" in text or "float" in text else "other"
