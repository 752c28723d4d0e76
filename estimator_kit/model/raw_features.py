"""The features that a model reads as the records have them, without a column: `ModelFn.raw`.

    with raw_features.offered(features):
        logits = model.logits(features, mode)    # raw_features.get("Mine", spec, "title")
        raw_features.forward(model, added)       # The parameter `forward_features`.

The section `raw` of the spec lists them, because the input is made before the model. The transform
puts them into `features`. `asked` tells which of them a model reads.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model import outputs, user_code
from feature_specs.errors import did_you_mean
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.transforms import Features, raw_of

_OFFERED: contextvars.ContextVar[Optional[Features]] = contextvars.ContextVar("raw", default=None)
_ASKED: contextvars.ContextVar[Optional[set[str]]] = contextvars.ContextVar("asked", default=None)


@contextlib.contextmanager
def offered(features: Features) -> Iterator[None]:
    """Makes `get` return the raw features of a batch, in the block."""
    token = _OFFERED.set(features)
    try:
        yield
    finally:
        _OFFERED.reset(token)


@contextlib.contextmanager
def asked() -> Iterator[set[str]]:
    """Collects the names for which the block calls `get`."""
    names: set[str] = set()
    token = _ASKED.set(names)
    try:
        yield names
    finally:
        _ASKED.reset(token)


def get(model: str, spec: FeatureSpec, name: str) -> Any:
    """A feature of the batch of `offered`, a Tensor or a RaggedTensor. See `ModelFn.raw`.

    Raises:
      ConfigError: `raw` does not list the feature, or no batch is offered.
    """
    place = user_code.place_of_call(f"{model}.raw")
    _check_listed(place, spec, name)
    return _value(place, name)


def check_forwarded(model: str, spec: FeatureSpec, names: Sequence[str]) -> None:
    """Raises ConfigError if `raw` does not list a feature of the parameter `forward_features`."""
    place = f"model {model}: forward_features"
    for i, name in enumerate(names):
        _check_listed(place, spec, name)
        user_code.check_new_name(place, "output", name, names[:i])


def forward(model: Any, added: list[outputs.Output]) -> None:
    """Adds the features of the parameter `forward_features` to the outputs of a `ModelFn`.

    A list becomes [rows, longest list], and its rows end with zeros or "".

    Raises:
      ConfigError: the model has added an output of this name.
    """
    place = f"model {type(model).__name__}: forward_features"
    taken = [output.name for output in added]
    for name in model.params.forward_features:
        user_code.check_new_name(place, "output", name, taken)
        value = _value(place, name)
        if isinstance(value, tf.RaggedTensor):
            value = value.to_tensor()
        added.append(outputs.Output(place, name, tf.identity(value)))


def _check_listed(place: str, spec: FeatureSpec, name: str) -> None:
    if name not in spec.raw:
        raise ConfigError(
            f"{place}: the section `raw` of {spec.source} does not list {name!r}, it lists "
            f"{', '.join(spec.raw) or 'nothing'}{_remedy(spec, name)}"
        )


def _value(place: str, name: str) -> Any:
    """The feature in the batch of `offered`, which is noted for `asked`."""
    features = _OFFERED.get()
    if features is None:
        raise ConfigError(
            f"{place}: {name!r} has no values here. Call it in logits, or in another method that "
            "gets features or labels."
        )
    if raw_of(name) not in features:
        raise ConfigError(
            f"{place}: the input has no {name!r}. Make the input with this spec, or add the entry "
            f"{raw_of(name)!r} to the features of your input_fn."
        )
    names = _ASKED.get()
    if names is not None:
        names.add(name)
    return features[raw_of(name)]


def _remedy(spec: FeatureSpec, name: str) -> str:
    if name in spec.features:
        return f". Add it: `raw: [{', '.join([*spec.raw, name])}]`."
    if name in spec.labels:
        return ". It is a label, which requests do not have. example_losses and metrics get labels."
    return did_you_mean(name, spec.features)
