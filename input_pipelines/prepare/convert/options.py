"""`ConvertOptions`: what a user decides about a conversion. Imports no packages."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

COMPRESSIONS = ("none", "gzip")
ORDERS = ("stable", "shuffled")


@dataclasses.dataclass(frozen=True)
class ConvertOptions:
    """How rows become shards. The code for the flags checks the values.

    Attributes:
      shard_mib: about how many MiB of records a shard has, before compression.
      compression: `none`, or `gzip`, which adds .gz to the names.
      order: `stable` keeps the order of the rows in the sorted files; `shuffled` shuffles all rows.
      seed: decides the shuffled order.
      split_key: the column whose values decide which rows are for evaluation; None does not split.
      eval_fraction: the share of the key's values, not of the rows, that is for evaluation.
      step_columns: without a spec, columns of lists that become feature lists of SequenceExamples.
    """

    shard_mib: int = 100
    compression: str = "none"
    order: str = "stable"
    seed: int = 1
    split_key: Optional[str] = None
    eval_fraction: float = 0.0
    step_columns: tuple[str, ...] = ()

    @property
    def shares(self) -> dict[str, float]:
        """The parts into which rows are split, with each part's share of the keys."""
        if self.split_key is None:
            return {"data": 1.0}
        return {"train": 1.0 - self.eval_fraction, "eval": self.eval_fraction}

    @property
    def suffix(self) -> str:
        return ".tfrecord.gz" if self.compression == "gzip" else ".tfrecord"

    def document(self) -> dict[str, Any]:
        """The options that influence the contents of shards, by the names of their flags."""
        values = {
            "shard_mib": self.shard_mib,
            "shard_compression": self.compression,
            "convert_order": self.order,
            "split_key": self.split_key,
            "eval_fraction": self.eval_fraction if self.split_key is not None else None,
            "step_columns": list(self.step_columns),
        }
        if self.order == "shuffled":
            values["seed"] = self.seed
        return values
