"""Writes a SavedModel of a checkpoint, whole or not at all.

Below its folder each export is a folder named by its second, as TensorFlow Serving wants versions;
TensorFlow writes it under a temporary name and renames it when it is complete. The SavedModel needs
nothing but TensorFlow to load; vocabulary files are inside, as assets, and the spec is in
assets.extra.
"""

from __future__ import annotations

import os
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.serving_receiver import serving_input_receiver_fn
from feature_specs.schema import FeatureSpec


def export_saved_model(
    trained: Any, spec: FeatureSpec, folder: str, checkpoint: Optional[str] = None
) -> str:
    """Exports the latest checkpoint, or the one given, and returns the path of the SavedModel.

    Args:
      trained: the `tf.estimator.Estimator`.
      spec: its feature spec.
      folder: where versions are; made when missing.
      checkpoint: its path prefix.
    """
    path = trained.export_saved_model(
        folder,
        serving_input_receiver_fn(spec),
        assets_extra=_kept_spec(trained.model_dir),
        checkpoint_path=checkpoint,
    )
    return tf.compat.as_str(path)


def _kept_spec(model_dir: str) -> dict[str, str]:
    """The files of the spec that the model directory keeps, for `assets.extra`."""
    base = os.path.join(model_dir, "feature_spec")
    return {
        os.path.join("feature_spec", os.path.relpath(os.path.join(path, name), base)): os.path.join(
            path, name
        )
        for path, _, names in tf.io.gfile.walk(base)
        for name in names
    }


def versions(folder: str) -> list[str]:
    """Paths of the complete exports in a folder, the oldest first."""
    if not tf.io.gfile.isdir(folder):
        return []
    names = [name.rstrip("/") for name in tf.io.gfile.listdir(folder)]
    numbers = sorted(int(name) for name in names if name.isdigit())
    return [os.path.join(folder, str(number)) for number in numbers]


def delete_old(folder: str, keep: int) -> None:
    """Deletes all but the newest `keep` exports of a folder."""
    for path in versions(folder)[:-keep]:
        tf.io.gfile.rmtree(path)
