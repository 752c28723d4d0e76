"""`Settings`, the base class of all areas of settings, and `setting`, which declares one setting.

A setting is written once: its name, type, default, bounds and help are a field of an area. The kit
makes its flag, its `--help`, the check of a flagfile and the field of `ExperimentConfig` from it.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pydantic
from pydantic import Field
from pydantic_core import PydanticCustomError

# The largest number that TensorFlow holds, as int64.
LARGEST = 2**63 - 1

PositiveInt = Annotated[int, Field(ge=1, le=LARGEST, strict=True)]
Count = Annotated[int, Field(ge=0, le=LARGEST)]

# More than any machine has. TensorFlow would start as many threads and devices as it is told to.
MOST_THREADS = 1024
MOST_DEVICES = 1024
Threads = Annotated[int, Field(ge=0, le=MOST_THREADS)]


class Settings(pydantic.BaseModel):
    """Settings that belong together. A subclass declares each field with `setting`.

    Attributes:
      heading: the heading above these settings in `--help`.
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), defer_build=True
    )

    heading: ClassVar[str] = ""

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


def setting(default: Any, help_text: str) -> Any:
    """A field of settings, with its default and its text in `--help`."""
    return Field(default, description=help_text)


def _is_readable(text: str) -> bool:
    """Whether a text may be part of a path; Python shows bytes that are not UTF-8 as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
