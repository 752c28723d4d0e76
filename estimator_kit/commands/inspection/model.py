"""Describes a model: its parts, the memory that its training takes, and advice.

lines = describe(model, "dnn", statistics_beside("specs/ads.yaml"))
"""

from __future__ import annotations

import os
import pathlib
from typing import Optional

from estimator_kit.commands.inspection.advice import advice
from estimator_kit.commands.inspection.parts import Parts, parts_of
from estimator_kit.embeddings import table_memory
from estimator_kit.errors import ConfigError
from estimator_kit.model.model_fn import ModelFn
from feature_specs.statistics import Statistics, StatisticsError, load
from input_pipelines.prepare.analyze.columns import STATISTICS_FILE

_HEADER = ("parameters", "bytes", "with slots", "FLOPs a row", "part")


def describe(model: ModelFn, name: str, statistics: Optional[Statistics]) -> list[str]:
    """The lines about a model.

    Args:
      model: the model.
      name: its name, as in --model.
      statistics: of the training data, or None if they are not known.
    """
    parts = parts_of(model)
    found = advice(model.spec, model.groups(), parts, statistics)
    lines = [f"model {name}, by part", *_table(parts), *_memory(parts)]
    if statistics is None:
        found.append(
            f"The folder of the spec has no {STATISTICS_FILE}, so the sizes of hash buckets were "
            "not compared with the words. Write it with --mode=analyze."
        )
    return [*lines, "advice", *(f"  {sentence}" for sentence in found or ["none"])]


def statistics_beside(spec: str) -> Optional[Statistics]:
    """The statistics in the folder of a spec, or None if it has none.

    Raises:
      ConfigError: the file cannot be read.
    """
    path = os.path.join(os.path.dirname(spec), STATISTICS_FILE)
    if not os.path.exists(path):
        return None
    try:
        return load(pathlib.Path(path))
    except StatisticsError as error:
        raise ConfigError(str(error)) from error


def _table(parts: Parts) -> list[str]:
    lines = [_row(*_HEADER)]
    for part in parts.parts:
        numbers = (part.parameters, part.bytes, part.bytes + part.slot_bytes, part.operations)
        lines.append(_row(*(f"{number:,}" for number in numbers), part.name))
    total = [
        sum(part.parameters for part in parts.parts),
        sum(part.bytes for part in parts.parts),
        sum(part.bytes + part.slot_bytes for part in parts.parts),
        sum(part.operations for part in parts.parts),
    ]
    lines.append(_row(*(f"{number:,}" for number in total), "together"))
    lines.append("  FLOPs count matrix products; a multiplication and an addition count as two.")
    if parts.varies:
        lines.append("  Sizes that differ between rows, such as the steps of a list, count as 1.")
    if parts.growing:
        lines.append("  Tables that grow are not counted.")
    return lines


def _row(*cells: str) -> str:
    parameters, size, with_slots, operations, name = cells
    return f"  {parameters:>14}  {size:>16}  {with_slots:>16}  {operations:>14}  {name}"


def _memory(parts: Parts) -> list[str]:
    weights = sum(part.bytes for part in parts.parts)
    slots = sum(part.slot_bytes for part in parts.parts)
    memory = table_memory.machine_memory()
    here = f" of {_mib(memory)} on this machine" if memory is not None else ""
    lines = [
        f"training keeps {_mib(weights + slots)}{here}: {_mib(weights)} of weights, and "
        f"{_mib(slots)} that the optimizer adds. Gradients and batches come on top."
    ]
    if memory is not None and weights + slots > memory:
        lines.append(
            "  This is more than the machine has. Lower the dimension of an embedding or the size "
            "of its column, or train on several machines with --strategy=parameter_server."
        )
    return lines


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"
