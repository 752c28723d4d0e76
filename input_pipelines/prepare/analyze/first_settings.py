"""The settings of a first training: model, parameters and length, each with its reason.

    for setting in suggest(rows=30_000, head="binary", objective="click", deep_columns=12):
        print(f"# {setting.why}\n--{setting.flag}={setting.value}")

`--mode=analyze` writes them into `exp.flags`. This module only reads numbers about the data. It
imports no TensorFlow and writes nothing.

The numbers are the best of measurements on public tables: mobile ad clicks (70,000 rows), a CTR
log (5,700 rows) and speed dating (5,900 rows with 190 columns). benchmarks/first_models.md has
them. Optimizer and learning rate are the defaults of the model.
"""

from __future__ import annotations

import dataclasses
from typing import Optional


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

# An epoch of a small table has at least as many steps: with batches of 512, a table of 6,000 rows
# needs twice as many epochs and ends at a lower AUC.
_STEPS = 40
_SMALLEST_BATCH, _LARGEST_BATCH = 32, 512

# The share of units that training sets to zero, below a number of rows.
_DROPOUT = ((20_000, 0.5), (200_000, 0.3), (1_000_000, 0.1))

# Dropout changes the scale of the logits, which numbers do not forgive as classes do, and they need
# more steps: on a table of 54,000 prices, the error was 2 % lower without dropout and with half the
# batch.
_HEADS_OF_NUMBERS = ("regression", "poisson", "quantile", "ziln")
_LARGEST_BATCH_OF_NUMBERS = 256

# Below as many rows, chance moves a metric so much that training waits longer.
_FEW_ROWS = 200_000
_SMALL_TABLE = 20_000


def suggest(
    *,
    rows: int,
    head: str,
    objective: str,
    deep_columns: int = 0,
    evaluated: bool = True,
) -> list[Setting]:
    """The settings of a first training, in the order of the flagfile.

    Args:
      rows: the rows to train on. For `next_item`, the histories.
      head: the head of the first objective.
      objective: the name of the first objective.
      deep_columns: how many columns the group `deep` has; 0 without such a group.
      evaluated: whether there are evaluation files, which say when to stop.
    """
    metric = f"{_METRICS[head]}/{objective}" if head in _METRICS else "loss"
    batch = _batch_size(rows, head)
    if head == "next_item":
        settings = [Setting("model", "sasrec", "reads the steps of a history in order")]
    elif deep_columns:
        settings = [Setting("model", "dnn", "a neural network over numbers and embeddings of ids")]
        settings += _layers(rows, head)
    else:
        settings = [Setting("model", "linear", "the spec has no group deep")]
    about = f"about {max(rows // batch, 1):,} steps an epoch"
    settings.append(Setting("batch_size", str(batch), about))
    settings += [
        Setting("best_metric", metric, "what judges an evaluation, and which export is best"),
        *(_until_it_stalls(rows) if evaluated else [_epochs(rows)]),
        Setting("exporters", "best", "the export of the best evaluation, not of the last one"),
    ]
    return settings


def _layers(rows: int, head: str) -> list[Setting]:
    """The parameters of hidden layers."""
    params = [Setting("model_params", "hidden_units=[128,64]", "the hidden layers")]
    rate: Optional[float] = next((rate for limit, rate in _DROPOUT if rows < limit), None)
    if rate is not None and head not in _HEADS_OF_NUMBERS:
        why = f"the share of hidden units that a step leaves out, so that {rows:,} rows are not "
        params.append(Setting("model_params", f"dropout={rate}", f"{why}learned by heart"))
    return params


def _until_it_stalls(rows: int) -> list[Setting]:
    patience = 5 if rows < _FEW_ROWS else 3
    why = (
        "training ends after this many evaluations without a better one. To train a fixed time, "
        "add --epochs=10"
    )
    return [Setting("early_stopping_patience", str(patience), why)]


def _epochs(rows: int) -> Setting:
    epochs = 10 if rows < _SMALL_TABLE else 3
    why = "how often training reads each row. With --eval_files, remove it: then training ends by "
    return Setting("epochs", str(epochs), f"{why}itself when evaluations stop improving")


def _batch_size(rows: int, head: str) -> int:
    """A power of two that gives a small table enough steps."""
    size = _LARGEST_BATCH_OF_NUMBERS if head in _HEADS_OF_NUMBERS else _LARGEST_BATCH
    while size > _SMALLEST_BATCH and rows < size * _STEPS:
        size //= 2
    return size
