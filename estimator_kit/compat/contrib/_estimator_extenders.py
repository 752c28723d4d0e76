"""Functions of tf.contrib.estimator that change an optimizer or an Estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

import tensorflow.compat.v1 as tf


def clip_gradients_by_norm(optimizer: Any, clip_norm: float) -> Any:
    """`optimizer`, which gets all gradients scaled so that their global norm is `clip_norm` at
    most."""
    return _ClipByNorm(optimizer, clip_norm)


class _ClipByNorm(tf.train.Optimizer):
    def __init__(self, optimizer: Any, clip_norm: float) -> None:
        super().__init__(use_locking=False, name=f"ClipByNorm{optimizer.get_name()}")
        self._optimizer, self._clip_norm = optimizer, clip_norm

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None
    ) -> Any:
        gradients, variables = zip(*grads_and_vars)
        clipped, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
        return self._optimizer.apply_gradients(list(zip(clipped, variables)), global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self) -> Any:
        return self._optimizer.variables()


def forward_features(
    estimator: Any,
    keys: Union[str, Sequence[str], None] = None,
    sparse_default_values: Optional[Mapping[str, Any]] = None,
) -> Any:
    """An Estimator of the same model, whose predictions and exports have features too.

    Args:
      keys: the features; all if None.
      sparse_default_values: the value of absent elements of each sparse feature.
    """
    if isinstance(keys, str):
        keys = [keys]
    if keys is not None and not all(isinstance(key, str) for key in keys):
        raise TypeError(f"keys should be either a string or a list of strings. Given: {keys}")

    def model_fn(features: Any, labels: Any, mode: Any, config: Any) -> Any:
        spec = estimator.model_fn(features, labels, mode, config)
        if spec.predictions is None:
            return spec
        wanted = list(features) if keys is None else keys
        _check(wanted, features, spec.predictions)
        added = {key: _dense(key, features[key], sparse_default_values or {}) for key in wanted}
        spec.predictions.update(added)
        for key in ("predict", "serving_default"):
            output = (spec.export_outputs or {}).get(key)
            if isinstance(output, tf.estimator.export.PredictOutput):
                output.outputs.update(added)
        return spec

    return tf.estimator.Estimator(model_fn, estimator.model_dir, estimator.config)


def _check(wanted: Sequence[str], features: Any, predictions: Any) -> None:
    if not isinstance(predictions, dict):
        raise ValueError(
            "Predictions should be a dict to be able to forward features. "
            f"Given: {type(predictions)}"
        )
    for key in wanted:
        if key not in features:
            raise ValueError(
                f'keys should be exist in features. Key "{key}" is not in features dict. features '
                f"dict has following keys: {sorted(features)}."
            )
        if key in predictions:
            raise ValueError(
                f"Cannot forward feature key ({key}). Since it does exist in predictions. Existing "
                f"prediction keys: {sorted(map(str, predictions))}."
            )


def _dense(key: str, feature: Any, defaults: Mapping[str, Any]) -> Any:
    if key in defaults:
        if not isinstance(feature, tf.SparseTensor):
            raise ValueError(f"Feature ({key}) is expected to be a `SparseTensor`.")
        return tf.sparse.to_dense(feature, default_value=defaults[key])
    if isinstance(feature, tf.SparseTensor):
        raise ValueError(
            f"Feature ({key}) should be a Tensor. Leave it out of `keys`, or add it to "
            "`sparse_default_values`."
        )
    return tf.convert_to_tensor(feature)


def replicate_model_fn(
    model_fn: Callable[..., Any],
    loss_reduction: str = tf.losses.Reduction.SUM_BY_NONZERO_WEIGHTS,
    devices: Optional[Sequence[str]] = None,
) -> Callable[..., Any]:
    """`model_fn` itself: it runs on one device.

    Raises:
      ValueError: `devices` has more than one device.
    """
    if devices is not None and len(devices) > 1:
        raise ValueError(
            f"replicate_model_fn: expected one device, got {list(devices)}. For several GPUs, give "
            "the Estimator RunConfig(train_distribute=tf.distribute.MirroredStrategy())."
        )
    return model_fn


def tower_optimizer(optimizer_or_optimizer_fn: Any) -> Any:
    """The optimizer itself, for `replicate_model_fn` with one device."""
    if callable(optimizer_or_optimizer_fn):
        return optimizer_or_optimizer_fn()
    return optimizer_or_optimizer_fn
