"""JSON files as typed objects. A reader sees the whole old file or the whole new one.

    class Kept(documents.Document):
        global_step: int
        metrics: dict[str, Optional[float]]

    Kept(global_step=800, metrics={"auc/click": 0.71}).save("runs/a/kept.json")
    Kept.load("runs/a/kept.json").global_step    # 800
    Kept.load("runs/a/nothing.json")             # None

A `Document` is one object, a `Root` another value, such as a list; `save_lines` writes one object
on each line. Their fields are declared once, and nobody reads a file of the kit as a dictionary. So
an error for a damaged file names the field, and a type checker follows its use.

A file holds the fields that were given, and null for NaN and infinity, which JSON does not have.
Fields that a later version of the kit wrote stay. This module never guesses: a file with another
form is an error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, Optional, TypeVar, Union

import pydantic
from typing_extensions import Self

from feature_specs.errors import ConfigError, path_text, value_text
from feature_specs.files import file_systems, staged, urls

_D = TypeVar("_D", bound="_Stored")
_T = TypeVar("_T")


class Part(pydantic.BaseModel):
    """An object in a file; frozen. A later version of the kit may have written more fields."""

    model_config = pydantic.ConfigDict(
        extra="allow", frozen=True, strict=True, protected_namespaces=()
    )


class _Stored(pydantic.BaseModel):
    """What `Document` and `Root` share."""

    # What errors for a damaged file tell the user to do.
    remedy: ClassVar[str] = "Repair or remove it."
    # Whether a file has its fields in alphabetical order, and not in the order of the object.
    sort_keys: ClassVar[bool] = True
    # How many spaces a level is indented by, and whether other characters are written as \uXXXX.
    indent: ClassVar[int] = 2
    ascii: ClassVar[bool] = True

    @classmethod
    def load(cls, path: str) -> Optional[Self]:
        """The value in a file, or None if the file does not exist.

        Raises:
          ConfigError: the file is not JSON, or its value has another form; the message names it.
        """
        content = file_systems.read(path)
        return None if content is None else cls.of_text(_localized(content), path)

    @classmethod
    def of_text(cls, text: Union[str, bytes], path: str) -> Self:
        """The value of a text; `path` names it in errors. Raises ConfigError like `load`."""
        try:
            return cls.model_validate_json(text)
        except pydantic.ValidationError as error:
            raise ConfigError(f"{path}: {problem_of(error)}. {cls.remedy}") from error

    def as_json(self) -> Any:
        """The value of the file, for `json.dumps`: the fields that were given."""
        return plain(self.model_dump(mode="json", by_alias=True, exclude_unset=True))

    def as_text(self) -> str:
        """The text of the file."""
        value, sort_keys = self.as_json(), self.sort_keys
        return (
            json.dumps(value, indent=self.indent, ensure_ascii=self.ascii, sort_keys=sort_keys)
            + "\n"
        )

    def save(self, path: str, *, within: Optional[str] = None, durable: bool = False) -> None:
        """Writes the file; it appears whole. Makes missing folders. For arguments, see `staged`.

        Raises:
          ConfigError: the path is a folder.
        """
        text = urls.shown(self.as_text())
        staged.write(path, text.encode(), within=within, durable=durable)


class Document(Part, _Stored):
    """One JSON object in a file."""


class Root(_Stored, pydantic.RootModel[_T], Generic[_T]):
    """One JSON value in a file that is not an object with known fields; see `root`."""

    model_config = pydantic.ConfigDict(frozen=True, strict=True, protected_namespaces=())


def load_lines(path: str, form: type[_D]) -> list[_D]:
    """The objects of a file with one on each line; empty if the file does not exist.

    Raises:
      ConfigError: a line is not JSON, or its value has another form; the message names it.
    """
    objects = []
    for number, line in enumerate((file_systems.read(path) or b"").splitlines(), start=1):
        try:
            objects.append(form.model_validate_json(_localized(line)))
        except pydantic.ValidationError as error:
            text = f"{path}:{number}: {problem_of(error)}. Repair or remove the line."
            raise ConfigError(text) from error
    return objects


def save_lines(path: str, entries: Iterable[_Stored]) -> None:
    """Writes a file with one object on each line; it appears whole."""
    lines = (json.dumps(e.as_json(), sort_keys=e.sort_keys) + "\n" for e in entries)
    write_text(path, "".join(lines))


def _localized(content: bytes) -> bytes:
    """The content with paths for the URLs of copies, if it is text."""
    if b"://" not in content:
        return content
    return urls.localized(content.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def problem_of(error: pydantic.ValidationError) -> str:
    """Where JSON first differs from its form, in one sentence without a point."""
    first = error.errors(include_url=False)[0]
    if first["type"] == "json_invalid":
        return f"not JSON: {first['msg'].removeprefix('Invalid JSON: ')}"
    place = path_text(first["loc"])
    if first["type"] == "missing":
        return f"{place} is missing"
    if first["type"] == "extra_forbidden":
        return f"{place} is unknown"
    expected = first["msg"].removeprefix("Input should be ")
    return f"{place}: got {value_text(first['input'])}, expected {expected}"


def write_text(path: str, text: str) -> None:
    """Writes a text file; it appears whole, see `staged`. Makes missing folders.

    Raises:
      ConfigError: the path is a folder.
    """
    staged.write(path, urls.shown(text).encode())


def write_json(path: str, value: Any, *, sort_keys: bool = True) -> None:
    """Writes a value that no code of the kit reads again; for all others, see `Document`."""
    write_text(path, json.dumps(plain(value), indent=2, sort_keys=sort_keys) + "\n")


def plain(value: Any) -> Any:
    """A value for JSON: numbers that are not finite become None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
