"""The initializers of the weights of layers, as parameters of models name them.

    zeros, {constant: 0.1}, {normal: {stddev: 0.1}}, {truncated_normal: {stddev: 0.1}},
    {uniform: {min: -0.1, max: 0.1}}, orthogonal, {orthogonal: 1.4}, identity, {identity: 0.5},
    {variance_scaling: {scale: 2, mode: fan_in, distribution: uniform}},
    glorot_uniform, glorot_normal, he_uniform, he_normal, lecun_uniform, lecun_normal

Embedding columns of a spec use the same code for the initializers that both have. The number of
`orthogonal` (Saxe et al., ICLR 2014) and `identity` is a factor of the matrix. Variance scaling
draws numbers with the variance scale / n. n is the number of inputs of a unit (fan_in), the number
of outputs (fan_out), or their mean (fan_avg). The last six names are common cases of variance
scaling:

    glorot   scale 1, fan_avg   Glorot & Bengio, AISTATS 2010; the default of dense layers
    he       scale 2, fan_in    He et al., ICCV 2015; for relu
    lecun    scale 1, fan_in    LeCun et al., 1998; for selu
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional, Union

import pydantic
import tensorflow as tf

from feature_specs.embeddings.initial_values import drawn
from feature_specs.entry import Entry, FiniteFloat, PositiveFloat, only_key
from feature_specs.kinds.embedding import Normal, TruncatedNormal, Uniform, Zeros


class Constant(Entry):
    """All values are one number."""

    constant: FiniteFloat


class Orthogonal(Entry):
    """A random matrix with orthogonal rows or columns, times a factor."""

    orthogonal: PositiveFloat


class Identity(Entry):
    """A matrix with ones on the diagonal and zeros elsewhere, times a factor."""

    identity: PositiveFloat


class VarianceScaling(Entry):
    """Random numbers with the variance scale / n. See the module docstring."""

    class Values(Entry):
        scale: PositiveFloat = 1.0
        mode: Literal["fan_in", "fan_out", "fan_avg"] = "fan_in"
        distribution: Literal["truncated_normal", "untruncated_normal", "uniform"] = (
            "truncated_normal"
        )

    variance_scaling: Values


_SCALES = {"glorot": (1.0, "fan_avg"), "he": (2.0, "fan_in"), "lecun": (1.0, "fan_in")}
_NAMED: dict[str, dict[str, Any]] = {
    "zeros": {"zeros": True},
    "orthogonal": {"orthogonal": 1.0},
    "identity": {"identity": 1.0},
    **{
        f"{name}_{word}": {
            "variance_scaling": {"scale": scale, "mode": mode, "distribution": distribution}
        }
        for name, (scale, mode) in _SCALES.items()
        for word, distribution in (("uniform", "uniform"), ("normal", "truncated_normal"))
    },
}


def _spelled_out(value: Any) -> Any:
    return _NAMED.get(value, value) if isinstance(value, str) else value


Initializer = Annotated[
    Union[
        Annotated[Zeros, pydantic.Tag("zeros")],
        Annotated[Constant, pydantic.Tag("constant")],
        Annotated[Normal, pydantic.Tag("normal")],
        Annotated[TruncatedNormal, pydantic.Tag("truncated_normal")],
        Annotated[Uniform, pydantic.Tag("uniform")],
        Annotated[Orthogonal, pydantic.Tag("orthogonal")],
        Annotated[Identity, pydantic.Tag("identity")],
        Annotated[VarianceScaling, pydantic.Tag("variance_scaling")],
    ],
    pydantic.Discriminator(
        only_key,
        custom_error_type="initializer",
        custom_error_message=f"expected {', '.join(_NAMED)}, {{constant: number}}, "
        "{normal: {stddev}}, {truncated_normal: {stddev}}, {uniform: {min, max}}, "
        "{orthogonal: factor}, {identity: factor} or "
        "{variance_scaling: {scale, mode, distribution}}",
    ),
    pydantic.BeforeValidator(_spelled_out),
]


def make_initializer(entry: Optional[Any]) -> Any:
    """The v1 initializer of an `Initializer` entry. None makes a Glorot-uniform one."""
    v1 = tf.compat.v1
    if entry is None:
        return v1.glorot_uniform_initializer()
    if isinstance(entry, Constant):
        return v1.constant_initializer(entry.constant)
    if isinstance(entry, Orthogonal):
        return v1.orthogonal_initializer(gain=entry.orthogonal)
    if isinstance(entry, Identity):
        return v1.initializers.identity(gain=entry.identity)
    if isinstance(entry, VarianceScaling):
        return v1.variance_scaling_initializer(**entry.variance_scaling.model_dump())
    return drawn(entry)
