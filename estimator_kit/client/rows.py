"""Converts rows (dicts, a DataFrame, a Table) to the serialized Examples that an export reads.

It uses the spec that an export keeps in `assets.extra/feature_spec`, so a request always fits what
the model was trained to read. If the spec has feature lists, rows become SequenceExamples. Labels
are not sent. Any other name that is not in the spec is an error.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np

from . import messages, record_spec
from .tensors import DEFAULT_SIGNATURE

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
_FIELDS = {"string": "bytes_list", "float32": "float_list", "int64": "int64_list"}
_EXPECTED = {"string": "str or bytes", "float32": "a number", "int64": "an int64"}


class RowError(ValueError):
    """A row does not fit the spec; the message names the row, the feature and what is expected."""


class Rows:
    """Makes Examples from rows.

    Args:
      spec: a `RecordSpec` (see `of_export`), or a `FeatureSpec` of the kit.
      needs: `{signature: features that it reads}`. Rows for a signature that is not in it must have
        all features that are required.

    Attributes:
      sequence: whether records are SequenceExamples, which classify and regress do not accept.
    """

    def __init__(self, spec: Any, needs: Optional[Mapping[str, Sequence[str]]] = None):
        self._spec = spec
        self._needed = [name for name in spec.used_features() if spec.features[name].is_required]
        self._needs = needs or {}
        self.sequence: bool = spec.sequence_examples

    @classmethod
    def of_export(cls, path: Union[str, os.PathLike[str]]) -> Rows:
        """Reads the spec that an export keeps, or a spec file.

        Args:
          path: the folder of an export; or the spec.json in its `assets.extra/feature_spec`, the
            only file of an export that a client needs; or a spec in YAML, which needs the kit. Only
            the folder also says which features each signature needs.

        Raises:
          ValueError: the file does not exist, or cannot be read.
          ImportError: the path is YAML, and the kit is not installed.
        """
        text = os.fspath(path)
        if os.path.isdir(text):
            extra = os.path.join(text, "assets.extra")
            spec = record_spec.load(os.path.join(extra, "feature_spec", "spec.json"))
            return cls(spec, record_spec.load_needs(os.path.join(extra, "signature_features.json")))
        if text.endswith(".json"):
            return cls(record_spec.load(text))
        try:
            import feature_specs
        except ImportError as error:
            raise ImportError(
                f"{text}: expected a folder or a .json file. Give the folder of an export, or "
                "install the kit with `pip install estimator-kit`."
            ) from error
        return cls(feature_specs.load(text))

    def examples(self, rows: Any, signature: str = "") -> list[Any]:
        """The messages of rows.

        Args:
          rows: dicts `{feature: value}`; or a DataFrame of pandas or Polars, or a Table of pyarrow,
            whose columns are features. Values that have no entry, and None, NaN and pandas' NA,
            count as missing. An int64 feature also takes whole floats, because pandas stores
            integers with missing values as floats; but not floats of 2^53 and more, which may stand
            for several integers. It takes no booleans. A feature of several values takes a list or
            an array; a fixed shape needs exactly its number of values.
          signature: the name of the signature that gets them; empty for the default of the server.
            A row may lack features that it does not read.

        Raises:
          RowError: a name is not in the spec, two columns have the same name, or a value does not
            fit the spec.
        """
        make = self._sequence_example if self.sequence else self._example
        read = self._needs.get(signature or DEFAULT_SIGNATURE, self._needed)
        needed = [name for name in self._needed if name in read]
        return [make(row, number, needed) for number, row in enumerate(_dicts(rows))]

    def serialized(self, rows: Any, signature: str = "") -> list[bytes]:
        """The serialized messages of rows, for a signature that takes `examples`."""
        return [example.SerializeToString() for example in self.examples(rows, signature)]

    def _example(self, row: Mapping[str, Any], number: int, needed: Sequence[str]) -> Any:
        example = messages.message("tensorflow.Example")()
        for name, value in self._values(row, number, needed):
            self._fill(example.features.feature[name], name, value, number)
        return example

    def _sequence_example(self, row: Mapping[str, Any], number: int, needed: Sequence[str]) -> Any:
        example = messages.message("tensorflow.SequenceExample")()
        for name, value in self._values(row, number, needed):
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

    def _values(
        self, row: Mapping[str, Any], number: int, needed: Sequence[str]
    ) -> Iterator[tuple[str, Any]]:
        for name, value in row.items():
            if name not in self._spec.features:
                if name in self._spec.labels:
                    continue
                raise RowError(
                    f"row {number}: the spec has no feature {name!r}"
                    f"{did_you_mean(name, self._spec.features)}"
                )
            if not _is_missing(value):
                yield name, value
        for name in needed:
            if _is_missing(row.get(name)):
                raise RowError(f"row {number}: the required feature {name!r} is missing")

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
    """The rows as dicts."""
    if isinstance(rows, Mapping):
        raise RowError("expected a list of dicts, one for each row, or a DataFrame, got one dict")
    is_table = hasattr(rows, "columns")
    if isinstance(rows, (str, bytes)) or not (is_table or _iterates(rows)):
        raise RowError(
            f"expected a list of dicts, one for each row, or a DataFrame, got {_short(rows)}"
        )
    rows_found = _rows_of_table(rows) if is_table else rows
    return (_dict(row, number) for number, row in enumerate(rows_found))


def _rows_of_table(table: Any) -> Iterable[Any]:
    """The rows of a DataFrame of pandas or Polars, or of a Table or RecordBatch of pyarrow."""
    is_arrow = hasattr(table, "to_pylist")
    names = list(table.schema.names if is_arrow else table.columns)
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise RowError(
            f"the column {twice!r} occurs more than once. A row has one value for each name: "
            "rename or remove the other columns."
        )
    columns: Iterable[Any]
    if is_arrow:
        columns = table.to_pylist()
    elif hasattr(table, "to_dicts"):
        columns = table.to_dicts()
    elif hasattr(table, "to_dict"):
        columns = table.to_dict("records")
    else:
        raise RowError(
            f"got a {type(table).__name__}, expected a list of dicts, one for each row, or a "
            "DataFrame of pandas or Polars, or a Table of pyarrow"
        )
    return columns


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
        result: list[Any] = value.tolist()
        return result
    if isinstance(value, (list, tuple)):
        return list(value)
    raise RowError(f"row {number}: {name}: got {_short(value)}, expected a list")


def _extend(place: Any, dtype: str, values: Sequence[Any], name: str, number: int) -> None:
    value_list = getattr(place, _FIELDS[dtype])
    value_list.SetInParent()
    try:
        value_list.value.extend([_CHECKED[dtype](value) for value in values])
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
    elif not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise TypeError
    if not -(2**63) <= int(value) < 2**63:
        raise ValueError
    return int(value)


_CHECKED: dict[str, Any] = {"string": _string, "float32": _float, "int64": _int}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """`. Did you mean 'user'?` for the nearest known name, or the list where none is near."""
    names = list(dict.fromkeys(known_names))
    near = difflib.get_close_matches(name, [n for n in names if n != name], n=1)
    if near:
        return f". Did you mean {near[0]!r}?"
    return f". Use one of: {', '.join(names)}." if names else ""
