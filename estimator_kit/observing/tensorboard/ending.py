"""What a training writes for TensorBoard at its end, and the command that shows all of it.

Writing needs no package of TensorBoard; only looking does. Its extra is `tensorboard`.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
from typing import Any

import tensorflow as tf

from estimator_kit.observing.measured_export import Slices, path_of
from estimator_kit.observing.tensorboard import once, projector, summaries
from feature_specs.spec import FeatureSpec


def command(model_dir: str) -> str:
    """The line that ends a run: how to open TensorBoard, and how to install it if it is absent."""
    start = f"tensorboard --logdir={shlex.quote(model_dir)}"
    if importlib.util.find_spec("tensorboard") is not None:
        return f"TensorBoard: {start}"
    return f"TensorBoard: pip install 'estimator-kit[tensorboard]', then {start}"


def finish(model_dir: str, spec: FeatureSpec, step: int, *, with_slices: bool = False) -> str:
    """Writes the embedding tables, and the slices if they were measured. Returns the last line.

    A run must not fail because of its pictures, so every error becomes a text.

    Args:
      model_dir: the model directory of a training.
      spec: its feature spec.
      step: the global step of its last checkpoint.
      with_slices: whether this training has written `observed/slices.json`.
    """
    try:
        projector.write(model_dir, spec)
        found = [once.end()]
        slices = Slices.load(path_of(model_dir, "slices.json")) if with_slices else None
        if slices is not None:
            found += slice_values(slices)
        evaluations = os.path.join(model_dir, once.EVALUATIONS)
        folder = evaluations if tf.io.gfile.isdir(evaluations) else model_dir
        once.write_file(folder, found, step, first=False)
    except Exception as error:
        return f"TensorBoard lacks embedding tables or slices: {error}. {command(model_dir)}"
    return command(model_dir)


def slice_values(slices: Slices) -> list[Any]:
    """A scalar for each slice, such as `slices/auc/click/country=DE`, if its metric is defined."""
    return [
        summaries.scalar(
            f"slices/{found.metric}/{objective}/{entry.feature}={entry.value}", entry.metric
        )
        for objective, found in slices.objectives.items()
        for entry in found.slices
        if entry.metric is not None
    ]
