"""`Settings`, the base class of all areas of settings, and `setting`, which declares one setting.

A setting is written once: its name, type, default, bounds and help are a field of an area. The kit
makes its flag, its `--help`, the check of a flagfile and the field of `ExperimentConfig` from it.
Imports no TensorFlow.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Optional, TypeVar, cast

import pydantic
from pydantic import Field
from pydantic_core import PydanticCustomError

from feature_specs import meaning

# The largest number that TensorFlow holds, as int64.
LARGEST = 2**63 - 1

PositiveInt = Annotated[int, Field(ge=1, le=LARGEST, strict=True)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]

# More than any machine has. TensorFlow would start as many threads and devices as it is told to.
MOST_THREADS = 1024
MOST_DEVICES = 1024
MOST_PROCESSES = 1024
Threads = Annotated[int, Field(ge=0, le=MOST_THREADS)]

S = TypeVar("S", bound="Settings")


class Settings(pydantic.BaseModel):
    """Settings that belong together. A subclass declares each field with `setting`.

    Attributes:
      heading: the heading above these settings in `--help`.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), defer_build=True
    )

    heading: ClassVar[str] = ""

    @classmethod
    def of(cls: type[S], config: Settings) -> S:
        """The settings of this area in a config that has them, which was checked."""
        values = {name: getattr(config, name) for name in cls.model_fields}
        set_in_config = config.model_fields_set & values.keys()
        return cast(S, cls.model_construct(set_in_config, **values))

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _readable(cls, value: Any) -> Any:
        for text in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(text, str) and not _is_readable(text):
                raise PydanticCustomError("text", "text in UTF-8 without a NUL character")
        return value

    @pydantic.field_validator("*", mode="before")
    @classmethod
    def _list_of_one(cls, value: Any, info: pydantic.ValidationInfo) -> Any:
        several = cls.model_fields[str(info.field_name)].annotation == tuple[str, ...]
        return (value,) if several and isinstance(value, str) else value


class InStore(enum.Enum):
    """How a setting may name a place in a store such as S3; see `commands.in_stores`."""

    FILES = "patterns of files that are read"
    READ = "a file or folder that is read"
    FOLDER = "a folder that belongs to the run"


def setting(
    default: Any,
    help_text: str,
    *,
    changes: str,
    named: bool = False,
    in_store: Optional[InStore] = None,
) -> Any:
    """A field of settings.

    Args:
      default: its default.
      help_text: its text in `--help`.
      changes: the aspects that it changes, or `nothing`; see `feature_specs.meaning`.
      named: whether it only points at what counts, as a path does.
      in_store: what it names in a store; None if it may not.
    """
    field: Any = Field(default, description=help_text)
    field.metadata.append(meaning.changes(changes, named=named))
    if in_store is not None:
        field.metadata.append(in_store)
    return field


def in_store_of(kind: type[Settings], name: str) -> Optional[InStore]:
    """What a setting may name in a store."""
    metadata = kind.model_fields[name].metadata
    return next((each for each in metadata if isinstance(each, InStore)), None)


def changes_of(kind: type[Settings], name: str) -> meaning.Changes:
    """What a setting changes, as its field declares it."""
    changes = meaning.of_field(kind.model_fields[name])
    assert changes is not None, f"{name} is not declared with `setting`"
    return changes


def _is_readable(text: str) -> bool:
    """Whether a text may be part of a path; Python shows bytes that are not UTF-8 as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def name_problems(flag: str, names: Sequence[str]) -> list[str]:
    """A line for each empty name, and for each name that is listed again."""
    lines = []
    for i, name in enumerate(names):
        if not name:
            lines.append(f"--{flag}: got an empty name. Remove it.")
        elif name in names[:i]:
            lines.append(f"--{flag}: {name!r} is listed twice. Remove one of them.")
    return lines


def pattern_problem(text: str) -> Optional[str]:
    """What is wrong with a regular expression, as a sentence; None if it is valid."""
    try:
        re.compile(text)
    except re.error as error:
        return f"{text!r} is not a regular expression: {error}"
    return None


def _pattern(text: str) -> str:
    problem = pattern_problem(text)
    if problem is not None:
        raise ValueError(problem)
    return text


# A field of a pydantic model: a regular expression for the start of a variable's name.
Prefix = Annotated[str, pydantic.AfterValidator(_pattern)]
