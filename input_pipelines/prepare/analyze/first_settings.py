"""The settings of a first training: model, parameters and length, each with its reason.

    for setting in suggest(rows=30_000, head="binary", objective="click", deep_columns=12):
        print(f"# {setting.why}\\n--{setting.flag}={setting.value}")

`--mode=analyze` writes them into `exp.flags`. This module only reads numbers about the data. It
imports no TensorFlow and writes nothing.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Setting:
    """One line of a flagfile.

    Attributes:
      flag: the name of the flag, without `--`.
      value: its value, as the command line has it.
      why: the reason, for a comment.
    """

    flag: str
    value: str
    why: str


# The metric that says which evaluation is best, for heads where `loss` is not the usual one.
_METRICS = {"binary": "auc", "ranking": "ndcg_at_10", "next_item": "ndcg_at_10"}

# About how many steps an epoch of a small table has.
_STEPS = 200
_SMALLEST_BATCH, _LARGEST_BATCH = 64, 512


def suggest(
    *,
    rows: int,
    head: str,
    objective: str,
    wide_columns: int = 0,
    deep_columns: int = 0,
    field_columns: int = 0,
    largest_ids: int = 0,
) -> list[Setting]:
    """The settings of a first training, in the order of the flagfile.

    Args:
      rows: the rows to train on. For `next_item`, the histories.
      head: the head of the first objective.
      objective: the name of the first objective.
      wide_columns, deep_columns, field_columns: how many columns the groups `wide`, `deep` and
        `fields` have; 0 for a group that the spec does not have.
      largest_ids: the most different values that a feature with categories has.
    """
    del wide_columns, largest_ids
    metric = f"{_METRICS[head]}/{objective}" if head in _METRICS else "loss"
    batch = _batch_size(rows)
    if head == "next_item":
        model = Setting("model", "sasrec", "reads the steps of a history in order")
    elif deep_columns:
        model = Setting("model", "wide_deep", "a linear model and a neural network together")
    else:
        model = Setting("model", "linear", "the spec has no group deep")
    settings = [
        model,
        Setting("batch_size", str(batch), f"about {max(rows // batch, 1):,} steps an epoch"),
        Setting("epochs", "10", "at most; early stopping ends the training sooner"),
        Setting(
            "save_checkpoints_steps",
            str(max(rows // batch, 1)),
            "one evaluation an epoch",
        ),
        Setting("early_stopping_metric", metric, "what judges an evaluation"),
        Setting(
            "early_stopping_patience",
            "3",
            "evaluations without improvement that end the training",
        ),
        Setting("exporters", "best", "the export of the best evaluation, not of the last one"),
        Setting("best_metric", metric, "the same metric as for early stopping"),
    ]
    return settings


def _batch_size(rows: int) -> int:
    """A power of two that gives a small table enough steps."""
    size = _LARGEST_BATCH
    while size > _SMALLEST_BATCH and rows < size * _STEPS:
        size //= 2
    return size
