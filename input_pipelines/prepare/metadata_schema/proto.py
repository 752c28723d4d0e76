"""The `Schema` message of the package tensorflow-metadata, which is imported at the first use.

Only the text format is supported, as TensorFlow Data Validation writes it (`schema.pbtxt`). With
TensorFlow 2.15 to 2.20, the package must be older than version 1.21, which needs protobuf 6.
"""

from __future__ import annotations

from typing import Any

from feature_specs.files import file_systems
from input_pipelines.errors import MissingPackageError, unreadable

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


def read(path: str) -> Any:
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
