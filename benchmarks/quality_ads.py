"""The generator's advertising log: does learning clicks help to learn purchases?

`purchase` is P(purchase | click), so only the clicked rows teach it: about 10,000 of 180,000 rows.
The benchmark compares the model `mmoe` with both objectives to models that learn only purchase, on
the same days in the same number of steps: the same `mmoe` without the objective click, and a `dnn`
of the size of one expert with two learning rates. These models read only the clicked rows, because
other rows have no weight for purchase. Their batches have as many clicked rows as the batches of
all rows have. A seed changes the data (the generator's seed), the initial values and the order of
rows.

AUC is over the clicked rows of the days after the training. The best possible AUC uses the true
probabilities of the same rows.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import statistics
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import yaml
from quality_runs import ROOT, Line, Run, commands, over_seeds, seeds_table, table

NEEDS_DATA = False

_DAYS, _TRAINING_DAYS, _ROWS_A_DAY = 8, 3, 60_000
_BATCH, _EPOCHS = 512, 6
_METRICS = ("auc/purchase", "bayes_auc/purchase", "loss/purchase")

_MMOE = ["--model=mmoe", "--model_params=hidden_units=[64,32]", "--model_params=experts=4",
         "--model_params=tower_units=[16]", "--model_params=optimizer=adagrad"]  # fmt: skip
_DNN = ["--model=dnn", "--model_params=hidden_units=[64,32]", "--model_params=optimizer=adagrad"]
_TOGETHER = "mmoe, click and purchase"
SETTINGS: dict[str, Sequence[str]] = {
    _TOGETHER: ["--spec=WORK/click_and_purchase.json", *_MMOE, "--model_params=learning_rate=0.2"],
    **{
        f"{model[0][8:]}, only purchase, rate {rate}": [
            "--spec=WORK/purchase.json", *model, f"--model_params=learning_rate={rate}",
        ]
        for model, rates in ((_MMOE, (0.2,)), (_DNN, (0.1, 0.2)))
        for rate in rates
    },
}  # fmt: skip
_ALONE = [name for name in SETTINGS if name != _TOGETHER]


def runs(work: str, data: Optional[str], seed: int, *, tiny: bool = False) -> Iterator[Run]:
    from input_pipelines.synthetic import impression_log

    folder = os.path.join(work, "ads")
    rows = 400 if tiny else _ROWS_A_DAY
    log = os.path.join(folder, f"seed{seed}")
    impression_log.generate(log, rows=rows * _DAYS, days=_DAYS, shards_per_day=1, seed=seed)
    days = sorted(glob.glob(f"{log}/dt=*/*.tfrecord"))
    taught, scored = f"{log}/clicked-training.tfrecord", f"{log}/clicked-later.tfrecord"
    clicks = _write_clicked(days[:_TRAINING_DAYS], taught)
    _write_clicked(days[_TRAINING_DAYS:], scored)
    _write_specs(folder)
    steps = rows * _TRAINING_DAYS * _EPOCHS // _BATCH
    length = (
        f"--max_steps={steps}",
        f"--model_params=schedule={{cosine: {{decay_steps: {steps}}}}}",
        f"--eval_files={scored}",
    )
    for name, given in SETTINGS.items():
        given = [flag.replace("WORK", folder) for flag in given]
        if name == _TOGETHER:
            files, batch = ",".join(days[:_TRAINING_DAYS]), _BATCH
        else:
            files, batch = taught, round(_BATCH * clicks / (rows * _TRAINING_DAYS))
        given += [f"--train_files={files}", f"--batch_size={batch}"]
        yield Run("ads", name, seed, (*given, *length), _METRICS)


def _write_clicked(files: Sequence[str], out: str) -> int:
    """Writes the rows with a click, the only ones with a weight for purchase; returns how many."""
    import tensorflow as tf

    click = {"click": tf.io.FixedLenFeature([], tf.int64)}
    count = 0
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        records = tf.data.TFRecordDataset(files).batch(4096)
        clicked = records.map(
            lambda block: tf.boolean_mask(block, tf.io.parse_example(block, click)["click"] > 0)
        )
        block = tf.compat.v1.data.make_one_shot_iterator(clicked).get_next()
        with tf.io.TFRecordWriter(out) as writer, contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                for record in session.run(block):
                    writer.write(record)
                    count += 1
    return count


def _write_specs(folder: str) -> None:
    """Writes the catalog's spec with both objectives at equal weight, and with only purchase."""
    with open(os.path.join(ROOT, "feature_specs/catalog/ads.yaml"), encoding="utf-8") as file:
        spec: dict[str, Any] = yaml.safe_load(file)
    spec["objectives"]["purchase"]["loss_weight"] = 1.0
    _write(spec, f"{folder}/click_and_purchase.json")
    # The feature click still weights the rows.
    del spec["objectives"]["click"], spec["labels"]["click"]
    spec["features"]["click"] = {"dtype": "int64"}
    spec["ignored"].append("true_click_probability")
    _write(spec, f"{folder}/purchase.json")


def _write(spec: dict[str, Any], path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(spec, file, indent=1)


def section(lines: Sequence[Line]) -> str:
    together = over_seeds(lines, _TOGETHER, "auc/purchase")
    best = over_seeds(lines, _TOGETHER, "bayes_auc/purchase")
    alone = [over_seeds(lines, name, "auc/purchase") for name in _ALONE]
    rows, margins = [], []
    lacks = [best[seed] - auc for seed, auc in together.items()]
    for seed, auc in together.items():
        rival = max(values[seed] for values in alone)
        margins.append(auc - rival)
        rows.append([str(seed), *(f"{value:.4f}" for value in (best[seed], auc, rival)),
                     f"{margins[-1]:+.4f}"])  # fmt: skip
    head = ["seed", "best possible", _TOGETHER, "best rival with only purchase", "margin"]
    aucs = seeds_table(lines, list(SETTINGS), "auc/purchase", "AUC", "{:.4f}".format)
    losses = seeds_table(lines, list(SETTINGS), "loss/purchase", "log loss", "{:.4f}".format)
    steps = _ROWS_A_DAY * _TRAINING_DAYS * _EPOCHS // _BATCH
    return f"""\
## Advertising log: purchase

About 5.6 % of the rows have a click, and a tenth of these a purchase: {_TRAINING_DAYS} days with \
{_ROWS_A_DAY * _TRAINING_DAYS:,} rows have about
1,000. `mmoe` learns click and purchase together. Its rivals learn only purchase, from the same
days in the same number of steps: the same `mmoe` without the objective click, and a `dnn` of the
size of one expert with two learning rates. They read only the rows with a click, because other rows
have no weight for purchase. Their batches have as many of these rows as the batches of all rows
have. **For each seed, the best rival counts, chosen by the reported AUC**, which favors the rivals.
The settings of both sides were chosen on seeds 1 and 2, with rates from 0.05 to 0.3. A seed changes
the data (the generator's seed), the initial values and the order of rows. AUC is over the clicked
rows of the {_DAYS - _TRAINING_DAYS} days that follow; the best possible AUC uses the true \
probabilities of these rows.

{table(head, rows)}

The smallest margin of the seeds is {min(margins):+.4f}, their mean \
{statistics.fmean(margins):+.4f}. The model that learns both is
still {statistics.fmean(lacks):.3f} below the best possible AUC: 1,000 purchases are few.

{aucs}

{losses}

Why it helps: purchase and click both depend on whether the category is among the user's interests,
and on the age that likes it. Click has ten times as many rows to learn that from. What only
purchase depends on (the price compared with the usual price, ways to pay) must be learned from the
clicked rows in both cases.

The specs are `feature_specs/catalog/ads.yaml` with `loss_weight: 1.0` for purchase, and the same
spec without the objective click (click is then a feature that weights the rows). A run leaves the
specs and the records in the folder `--work`, WORK below. Each command also has `--train_files`,
`--eval_files`, `--model_dir`, `--max_steps={steps}` and
`--model_params='schedule={{cosine: {{decay_steps: {steps}}}}}'` and a `--batch_size`:
{_BATCH} for all rows, about 29 for the clicked rows.

{commands(SETTINGS)}
"""
