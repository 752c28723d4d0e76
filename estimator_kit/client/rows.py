"""Rows, as dicts or as a DataFrame, become the serialized Examples that an export reads.

By the spec that an export keeps in `assets.extra/feature_spec`, so that what a model was trained
to read and what is sent cannot differ. A spec with feature lists makes SequenceExamples. Labels
are not sent; any other name that the spec does not know is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np

from . import messages, record_spec
from .errors import RowError, did_you_mean

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
_FIELDS = {"string": "bytes_list", "float32": "float_list", "int64": "int64_list"}
_EXPECTED = {"string": "str or bytes", "float32": "a number", "int64": "an int64"}


class Rows:
    """Makes Examples of rows.

    Args:
      spec: a `RecordSpec`, as `of_export` reads it, or a `FeatureSpec` of the kit.

    Attributes:
      sequence: whether records are SequenceExamples, which classify and regress do not take.
    """

    def __init__(self, spec: Any):
        self._spec = spec
        self._needed = [name for name in spec.used_features() if spec.features[name].is_required]
        self.sequence: bool = spec.sequence_examples

    @classmethod
    def of_export(cls, path: Union[str, os.PathLike[str]]) -> Rows:
        """Reads the spec that an export keeps, or a spec file.

        Args:
          path: the folder of an export; the spec.json in its `assets.extra/feature_spec`, which is
            all that a client needs of an export; or a spec in YAML, which the kit reads.

        Raises:
          ValueError: there is none, or it cannot be read.
          ImportError: it is YAML, and the kit is not installed.
        """
        text = os.fspath(path)
        if os.path.isdir(text):
            text = os.path.join(text, "assets.extra", "feature_spec", "spec.json")
        if text.endswith(".json"):
            return cls(record_spec.load(text))
        try:
            import feature_specs
        except ImportError as error:
            raise ImportError(
                f"{text}: got no folder and no .json file, and only the kit reads other specs; "
                "give the folder of an export, or pip install estimator-kit"
            ) from error
        return cls(feature_specs.load(text))

    def examples(self, rows: Any) -> list[Any]:
        """The messages of rows.

        Args:
          rows: dicts `{feature: value}`, or a DataFrame. None, NaN and pandas' NA are missing
            values, as is no entry. An int64 takes a whole float, too, since a column of integers
            with a missing one is a column of floats to pandas; not where floats are so large that
            neighboring integers are one float (2^53 and more). A feature of several values takes a
            list or an array; one of a fixed shape as many values as it has.

        Raises:
          RowError: a name or a value is not of the spec.
        """
        make = self._sequence_example if self.sequence else self._example
        return [make(row, number) for number, row in enumerate(_dicts(rows))]

    def serialized(self, rows: Any) -> list[bytes]:
        """The same, as the strings that a signature `examples` takes."""
        return [example.SerializeToString() for example in self.examples(rows)]

    def _example(self, row: Mapping[str, Any], number: int) -> Any:
        example = messages.message("tensorflow.Example")()
        for name, value in self._values(row, number):
            self._fill(example.features.feature[name], name, value, number)
        return example

    def _sequence_example(self, row: Mapping[str, Any], number: int) -> Any:
        example = messages.message("tensorflow.SequenceExample")()
        for name, value in self._values(row, number):
            feature = self._spec.features[name]
            if not feature.feature_list:
                self._fill(example.context.feature[name], name, value, number)
                continue
            steps = example.feature_lists.feature_list[name]
            steps.SetInParent()
            for step in _listed(value, name, number):
                values = _listed(step, name, number) if feature.nested else [step]
                _extend(steps.feature.add(), feature.dtype, values, name, number)
        return example

    def _values(self, row: Mapping[str, Any], number: int) -> Iterator[tuple[str, Any]]:
        for name, value in row.items():
            if name not in self._spec.features:
                if name in self._spec.labels:
                    continue
                raise RowError(
                    f"row {number}: no feature {name!r} in the spec"
                    f"{did_you_mean(name, self._spec.features)}"
                )
            if not _is_missing(value):
                yield name, value
        for name in self._needed:
            if _is_missing(row.get(name)):
                raise RowError(f"row {number}: the feature {name!r} is required and missing")

    def _fill(self, place: Any, name: str, value: Any, number: int) -> None:
        feature = self._spec.features[name]
        if feature.single:
            if isinstance(value, (list, tuple, np.ndarray)):
                raise RowError(f"row {number}: {name}: got {_short(value)}, expected one value")
            values: Sequence[Any] = [value]
        else:
            values = _listed(value, name, number)
            while not feature.variable and values and isinstance(values[0], (list, tuple)):
                values = [item for items in values for item in _listed(items, name, number)]
            if not feature.variable and len(values) != feature.length:
                raise RowError(
                    f"row {number}: {name}: got {len(values)} values, expected {feature.length}"
                )
        _extend(place, feature.dtype, values, name, number)


def _dicts(rows: Any) -> Iterable[Mapping[str, Any]]:
    """Rows as dicts."""
    if isinstance(rows, Mapping):
        raise RowError("got one dict; expected a list of dicts, one a row, or a DataFrame")
    if isinstance(rows, (str, bytes)) or not (hasattr(rows, "columns") or _iterates(rows)):
        raise RowError(f"got {_short(rows)}; expected a list of dicts, one a row, or a DataFrame")
    found = rows.to_dict("records") if hasattr(rows, "columns") else rows
    return (_dict(row, number) for number, row in enumerate(found))


def _iterates(rows: Any) -> bool:
    try:
        iter(rows)
    except TypeError:
        return False
    return True


def _dict(row: Any, number: int) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        raise RowError(f"row {number}: got {_short(row)}, expected a dict")
    return row


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _listed(value: Any, name: str, number: int) -> list[Any]:
    if isinstance(value, np.ndarray) and value.ndim:
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return list(value)
    raise RowError(f"row {number}: {name}: got {_short(value)}, expected a list")


def _extend(place: Any, dtype: str, values: Sequence[Any], name: str, number: int) -> None:
    made = getattr(place, _FIELDS[dtype])
    made.SetInParent()
    try:
        made.value.extend([_CHECKED[dtype](value) for value in values])
    except (TypeError, ValueError) as error:
        wrong = next((value for value in values if not _fits(dtype, value)), values)
        raise RowError(
            f"row {number}: {name}: got {_short(wrong)}, expected {_EXPECTED[dtype]}{error}"
        ) from error


def _fits(dtype: str, value: Any) -> bool:
    try:
        _CHECKED[dtype](value)
    except (TypeError, ValueError):
        return False
    return True


def _string(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes):
        raise TypeError
    return value


def _float(value: Any) -> float:
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        raise TypeError
    number = float(value)
    if _LARGEST_FLOAT32 < abs(number) < float("inf"):
        raise ValueError
    return number


def _int(value: Any) -> int:
    if isinstance(value, (float, np.floating)):
        if not float(value).is_integer():
            raise ValueError
        if abs(value) >= 2 ** (np.finfo(type(value)).nmant + 1):
            raise ValueError(", and a float this large may have been another integer")
    elif not isinstance(value, (int, np.integer, np.bool_)):
        raise TypeError
    if not -(2**63) <= int(value) < 2**63:
        raise ValueError
    return int(value)


_CHECKED: dict[str, Any] = {"string": _string, "float32": _float, "int64": _int}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
