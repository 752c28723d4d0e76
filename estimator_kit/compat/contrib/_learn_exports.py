"""Exports of tf.contrib.learn: serving input functions, and the strategy of an Experiment."""

from __future__ import annotations

import os
from typing import Any, Callable, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from ._learn_experiment import ExportStrategy


class InputFnOps(NamedTuple):
    """What a serving input function of tf.contrib.learn returns."""

    features: Any
    labels: Any
    default_inputs: Any


def build_parsing_serving_input_fn(
    feature_spec: Any, default_batch_size: Optional[int] = None
) -> Callable[[], InputFnOps]:
    """A serving input function that parses `tf.train.Example` records."""
    receiver_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        feature_spec, default_batch_size
    )

    def serving_input_fn() -> InputFnOps:
        receiver = receiver_fn()
        return InputFnOps(receiver.features, None, receiver.receiver_tensors)

    return serving_input_fn


def make_export_strategy(
    serving_input_fn: Callable[[], Any],
    default_output_alternative_key: Optional[str] = None,
    assets_extra: Any = None,
    as_text: bool = False,
    exports_to_keep: Optional[int] = 5,
    strip_default_attrs: Optional[bool] = None,
) -> ExportStrategy:
    """An export of a SavedModel named "Servo". The newest `exports_to_keep` stay; None is all."""

    def receiver_fn() -> Any:
        inputs = serving_input_fn()
        if isinstance(inputs, tf.estimator.export.ServingInputReceiver):
            return inputs
        return tf.estimator.export.ServingInputReceiver(inputs.features, inputs.default_inputs)

    def export(estimator: Any, folder: str, checkpoint: Optional[str], metrics: Any = None) -> Any:
        made = estimator.export_saved_model(folder, receiver_fn, assets_extra, as_text, checkpoint)
        if exports_to_keep:
            times = sorted(int(n.strip("/")) for n in tf.gfile.ListDirectory(folder) if _is_time(n))
            for time in times[:-exports_to_keep]:
                tf.gfile.DeleteRecursively(os.path.join(folder, str(time)))
        return made

    return ExportStrategy("Servo", export, strip_default_attrs)


def _is_time(name: str) -> bool:
    return name.strip("/").isdigit()
