"""Reads a Schema file, and one feature of it: what a spec can take, and what it cannot store.

Only the text format is supported, as TensorFlow Data Validation writes it (`schema.pbtxt`). With
TensorFlow 2.15 to 2.20, the package must be older than version 1.21, which needs protobuf 6. The
package is imported at the first use.

    reading = read(feature, domains, default=None)
    reading.dtype, reading.shape, reading.words, reading.range
    reading.lost        # sentences about fields that are set and that no spec can store

`feature_choices` makes the entries of a spec from it. Nothing is skipped silently.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Optional

from feature_specs.files import file_systems
from input_pipelines.errors import MissingPackageError, unreadable
from input_pipelines.prepare.analyze.feature_names import named_as_id

_LONGEST_LINE = 200


class SchemaError(ValueError):
    """A Schema that cannot be used; the message names the file."""


def library() -> Any:
    """The module `schema_pb2`.

    Raises:
      MissingPackageError: the package is not installed, or needs another version of protobuf.
    """
    try:
        from tensorflow_metadata.proto.v0 import schema_pb2
    except Exception as error:  # protobuf's VersionError is not an ImportError.
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if (missing or "").partition(".")[0] == "tensorflow_metadata":
            raise MissingPackageError(
                "a Schema needs the package 'tensorflow-metadata'; "
                "install it with: pip install 'estimator-kit[metadata]'"
            ) from error
        raise MissingPackageError(
            f"the installed tensorflow-metadata cannot be imported ({error}). With protobuf before "
            "6 (TensorFlow 2.15 to 2.20), install: pip install 'tensorflow-metadata<1.21'"
        ) from error
    return schema_pb2


def read_schema(path: str) -> Any:
    """The Schema in a file.

    Raises:
      SchemaError: the file cannot be read, or is not a Schema in text format.
      MissingPackageError: see `library`.
    """
    schema_pb2 = library()
    from google.protobuf import text_format

    file_systems.check(path, flag="--schema_file")
    try:
        with file_systems.open_file(path, "rb") as file:
            text = file.read().decode()
    except Exception as error:  # A store has errors of TensorFlow.
        raise SchemaError(f"{path!r} cannot be read: {unreadable(error)}") from error
    try:
        return text_format.Parse(text, schema_pb2.Schema())
    except text_format.ParseError as error:
        raise SchemaError(
            f"{path!r} is not a Schema of tensorflow-metadata in text format: {error}"
        ) from error


def text(message: Any) -> str:
    """A message in text format."""
    from google.protobuf import text_format

    return str(text_format.MessageToString(message, as_utf8=True))


def one_line(message: Any) -> str:
    """A message or another field as text for a sentence. Long text is cut in the middle."""
    from google.protobuf import text_format
    from google.protobuf.message import Message

    if not isinstance(message, Message):
        return str(message)
    text = text_format.MessageToString(message, as_utf8=True, as_one_line=True).strip()
    if len(text) > _LONGEST_LINE:
        text = f"{text[: _LONGEST_LINE // 2]} ... {text[-_LONGEST_LINE // 2 :]}"
    return f"{{ {text} }}" if text else "{ }"


DTYPES = {1: "string", 2: "int64", 3: "float32"}

# The types in a spec to which each domain of values applies.
_DOMAIN_TYPES = {
    "string_domain": ("string",),
    "bool_domain": ("string", "int64"),
    "int_domain": ("int64",),
    "float_domain": ("float32",),
}


@dataclasses.dataclass
class Reading:
    """One feature of a Schema, and what a spec can take from it.

    Attributes:
      message: the Feature.
      dtype: its type in a spec; None if a spec has no such type.
      shape: its shape in a spec.
      lost: fields that are set, with the reason why a spec cannot store them.
      domain: its domain, also if the Schema defines it elsewhere; None if it has no domain.
      domain_kind: the name of the domain's field, such as `string_domain`.
      default: the default of its TensorRepresentation.
    """

    message: Any
    dtype: Optional[str]
    shape: Any = ()
    lost: list[str] = dataclasses.field(default_factory=list)
    domain: Any = None
    domain_kind: str = ""
    default: Any = None
    notes: list[str] = dataclasses.field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.message.name)

    @property
    def required(self) -> bool:
        result: bool = self.message.HasField("presence") and self.message.presence.min_fraction >= 1
        return result

    @property
    def words(self) -> list[str]:
        """The words of a string's domain, without duplicates and empty words."""
        words: list[str] = []
        if self.dtype == "string" and self.domain_kind == "string_domain":
            words = list(self.domain.value)
        elif self.dtype == "string" and self.domain_kind == "bool_domain":
            words = [self.domain.false_value, self.domain.true_value]
        return list(dict.fromkeys(word for word in words if word))

    @property
    def range(self) -> Optional[tuple[float, float]]:
        """The ends of the domain of numbers, if both are finite and differ."""
        if self.domain_kind not in ("int_domain", "float_domain"):
            return None
        low, high = self.domain.min, self.domain.max
        both = self.domain.HasField("min") and self.domain.HasField("max")
        return (low, high) if both and low < high and math.isfinite(high - low) else None

    @property
    def integers(self) -> Optional[tuple[int, int]]:
        """The smallest and largest integer, if the domain has both."""
        if self.dtype != "int64":
            return None
        if self.domain_kind == "bool_domain":
            return 0, 1
        if self.domain_kind == "int_domain" and self.domain.HasField("max"):
            if self.domain.HasField("min") and self.domain.min <= self.domain.max:
                return self.domain.min, self.domain.max
        return None

    @property
    def is_category(self) -> bool:
        if self.dtype != "int64":
            return self.dtype == "string"
        if self.domain_kind == "int_domain" and self.domain.HasField("is_categorical"):
            return bool(self.domain.is_categorical)
        if self.domain_kind == "bool_domain" or self.shape == "variable":
            return True
        return not self.domain_kind and named_as_id(self.name)


def read(message: Any, domains: Mapping[str, tuple[str, Any]], default: Any) -> Reading:
    """Reads one Feature.

    Args:
      message: the Feature.
      domains: the domains of the Schema with their kinds, by name.
      default: the default of its TensorRepresentation, or None.
    """
    reading = Reading(message, DTYPES.get(message.type), default=default)
    _read_shape(reading)
    _read_domain(reading, domains)
    _list_lost(reading)
    return reading


def _read_shape(reading: Reading) -> None:
    message = reading.message
    kind = message.WhichOneof("shape_type")
    if kind == "shape":
        sizes_ = [dim.size for dim in message.shape.dim]
        if any(size < 1 for size in sizes_):
            reading.lost.append(f"shape {one_line(message.shape)}: a dimension has no size")
            reading.shape = "variable"
        else:
            reading.shape = () if sizes_ in ([], [1]) else tuple(sizes_)
    elif kind == "value_count":
        count = message.value_count
        if count.min == count.max == 1:
            return
        reading.shape = "variable"
        if count.min > 0 or count.max > 0:
            reading.lost.append(
                f"value_count {one_line(count)}: a list in a spec may have any length"
            )
    else:
        reading.shape = "variable"
        if kind is None:
            reading.notes.append("a list, because the Schema gives no shape")


def _read_domain(reading: Reading, domains: Mapping[str, tuple[str, Any]]) -> None:
    message = reading.message
    kind = message.WhichOneof("domain_info")
    if kind == "domain":
        if message.domain not in domains:
            reading.lost.append(f"domain {message.domain!r}: the Schema has no domain of that name")
            return
        reading.domain_kind, reading.domain = domains[message.domain]
    elif kind is not None:
        reading.domain_kind, reading.domain = kind, getattr(message, kind)
    if reading.domain_kind in _DOMAIN_TYPES:
        if reading.dtype is not None and reading.dtype not in _DOMAIN_TYPES[reading.domain_kind]:
            text = f"{reading.domain_kind} {one_line(reading.domain)}"
            reading.lost.append(f"{text}: it does not apply to a {reading.dtype} in a spec")
            reading.domain_kind, reading.domain = "", None


# Fields that are used completely, or reported elsewhere.
_USED = {
    "name",
    "deprecated",
    "shape",
    "value_count",
    "type",
    "domain",
    "int_domain",
    "float_domain",
    "string_domain",
    "bool_domain",
    "presence",
    "lifecycle_stage",
    "annotation",
    "in_environment",
    "not_in_environment",
    "drift_comparator",
    "distribution_constraints",
}


def _list_lost(reading: Reading) -> None:
    message, lost = reading.message, reading.lost
    presence = message.presence
    if message.HasField("presence"):
        if 0 < presence.min_fraction < 1 or presence.min_count > 1:
            lost.append(
                f"presence {one_line(presence)}: a spec knows only whether every record has it"
            )
    mass = message.distribution_constraints
    if mass.HasField("min_domain_mass") and mass.min_domain_mass not in (0, 1):
        lost.append(f"distribution_constraints {one_line(mass)}: a vocabulary allows other words")
    if reading.domain_kind == "string_domain" and len(set(reading.domain.value)) < len(
        reading.domain.value
    ):
        twice = next(w for w, n in Counter(reading.domain.value).items() if n > 1)
        lost.append(f"string_domain: the word {twice!r} is listed twice, and has one id")
    for extra in message.annotation.extra_metadata:
        lost.append(f"annotation.extra_metadata {extra.type_url}")
    for field, value in message.ListFields():
        if field.name not in _USED:
            lost.append(f"{field.name} {one_line(value)}")
