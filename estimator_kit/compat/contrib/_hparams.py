"""HParams of tf.contrib.training: named hyperparameters with types.

A hyperparameter keeps the type of its first value. Text (`parse`), JSON and dictionaries can only
change hyperparameters that exist, to values of that type; errors have the words of TensorFlow 1.15.
The protocol buffer HParamDef is not here, because TensorFlow 2 does not have it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ._hparam_values import cast, parse_values


class HParams:
    """Hyperparameters as attributes: `HParams(rate=0.1, units=[8, 4]).parse("rate=0.2")`."""

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        if hparam_def is not None:
            raise ValueError(
                "HParams: hparam_def is a protocol buffer of TensorFlow 1. Use HParams(**values), "
                f"got {hparam_def!r}."
            )
        self._hparam_types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a hyperparameter of the type of `value`, or of its first element."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        is_list = isinstance(value, (list, tuple))
        if is_list and not value:
            raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
        self._hparam_types[name] = (type(value[0] if is_list else value), is_list)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Changes a hyperparameter; `value` must have its type.

        Raises:
          KeyError: the hyperparameter does not exist.
          ValueError: `value` has another type.
        """
        kind, is_list = self._hparam_types[name]
        if isinstance(value, list) != is_list:
            raise ValueError(
                f"Must pass a list for multi-valued parameter: {name}."
                if is_list
                else f"Must not pass a list for single-valued parameter: {name}"
            )
        as_list = [cast(name, kind, v) for v in (value if is_list else [value])]
        setattr(self, name, as_list if is_list else as_list[0])

    def del_hparam(self, name: str) -> None:
        """Removes a hyperparameter, if it exists."""
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values: str) -> HParams:
        """Changes hyperparameters by text: see `parse_values`. Returns this object."""
        kinds = {name: kind for name, (kind, _) in self._hparam_types.items()}
        return self.override_from_dict(parse_values(values, kinds))

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Changes hyperparameters by name. Returns this object."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> HParams:
        """Changes hyperparameters by the text of a JSON object. Returns this object."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """The hyperparameters as the text of a JSON object."""
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def values(self) -> dict[str, Any]:
        """The hyperparameters by name."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def get(self, key: str, default: Any = None) -> Any:
        """The hyperparameter, or `default` if it does not exist.

        Raises:
          ValueError: it exists, and `default` has another type.
        """
        if key not in self._hparam_types:
            return default
        kind, is_list = self._hparam_types[key]
        if default is not None:
            shown = f"list<{kind}>" if is_list else str(kind)
            message = f"Hparam '{key}' of type '{shown}' is incompatible with default={default}"
            if isinstance(default, list) != is_list:
                raise ValueError(message)
            try:
                for value in default if is_list else [default]:
                    cast(key, kind, value)
            except ValueError as error:
                raise ValueError(f"{message}. {error}") from None
        return getattr(self, key)

    def set_model_structure(self, model_structure: Any) -> None:
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        return self._model_structure

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.values().items())

    def __repr__(self) -> str:
        return f"HParams({sorted(self.values().items())})"
