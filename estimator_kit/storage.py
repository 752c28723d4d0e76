"""Small files in a model directory. A reader sees the whole old file or the whole new one."""

from __future__ import annotations

import json
import math
import os
import shutil
from typing import Any, Optional, Union

import pydantic
import tensorflow as tf

from estimator_kit.errors import ConfigError
from feature_specs.errors import path_text, value_text
from feature_specs.files import staged
from input_pipelines.record_files import file_systems


class Form(pydantic.BaseModel):
    """The base class for objects in files; a later version may have written more fields."""

    model_config = pydantic.ConfigDict(extra="allow", strict=True, protected_namespaces=())


def check_writable(path: str, *, flag: str, is_file: bool = False) -> None:
    """Checks that a folder or a file can be written or made; changes nothing.

    Args:
      path: the folder or file.
      flag: the flag that names it, for errors.
      is_file: whether it is a file. Its name must leave room for the name of its temporary file.

    Raises:
      ConfigError: it cannot. Paths on other file systems are not checked.
      MissingPackageError: TensorFlow has no file system for the path.
    """
    file_systems.check(path, flag=flag)
    if file_systems.scheme_of(path) is not None:
        return
    whole = os.path.abspath(path)
    place = os.path.dirname(whole) if is_file else whole
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise ConfigError(
            f"{flag}={path}: {place} is a file, expected a folder. Choose another path."
        )
    if is_file and os.path.isdir(whole):
        raise ConfigError(f"{flag}={path} is a folder, expected a file. Choose another path.")
    most = os.pathconf(place, "PC_NAME_MAX")
    *folders, name = os.path.relpath(whole, place).split(os.sep)
    for part, room in [*((folder, 0) for folder in folders), (name, staged.ROOM * is_file)]:
        size = len(os.fsencode(part))
        if size > most - room:
            raise ConfigError(
                f"{flag}={path}: {part[:20]}... has {size} bytes, expected a name of at most "
                f"{most - room}. Choose a shorter name."
            )
    if not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(
            f"{flag}={path}: {place} cannot be written. Give this user the right to write there, "
            "or choose another folder."
        )


def write_text(path: str, text: str) -> None:
    """Writes a file that appears whole; see `staged`. Makes missing folders.

    Raises:
      ConfigError: the path is a folder.
    """
    check_is_file(path)
    with staged.file(path) as temporary, tf.io.gfile.GFile(temporary, "w") as file:
        file.write(text)


def write_json(path: str, value: Any, *, sort_keys: bool = True) -> None:
    """Writes JSON, with null for NaN and infinity, which JSON does not have."""
    write_text(path, json.dumps(plain(value), indent=2, sort_keys=sort_keys) + "\n")


def check_is_file(path: str) -> None:
    """Raises ConfigError if a path is a folder."""
    if tf.io.gfile.isdir(path):
        raise ConfigError(f"{path} is a folder, expected a file. Move it away.")


def read_json(path: str, form: Any = None) -> Optional[Any]:
    """The value in a JSON file, or None if the file does not exist.

    Args:
      path: the file.
      form: the type of the value, such as a subclass of `Form` or `dict[str, list[int]]`. The value
        is compared with it, and returned unchanged.

    Raises:
      ConfigError: the file is not JSON, or its value has another form; the message names it.
    """
    if not tf.io.gfile.exists(path):
        return None
    check_is_file(path)
    with tf.io.gfile.GFile(path) as file:
        try:
            text = file.read()
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path} is not JSON: {error}. Repair or remove it.") from error
    problem = form_problem(text, form) if form is not None else None
    if problem is not None:
        raise ConfigError(f"{path}: {problem}. Repair or remove it.")
    return value


def read_json_lines(path: str, form: Any) -> list[Any]:
    """The values of a file with one JSON value on each line; empty if the file does not exist.

    Args:
      path: the file.
      form: the type of each value, as in `read_json`.

    Raises:
      ConfigError: a line is not JSON, or its value has another form; the message names it.
    """
    if not tf.io.gfile.exists(path):
        return []
    check_is_file(path)
    with tf.io.gfile.GFile(path, "rb") as file:
        lines = file.read().splitlines()
    for number, line in enumerate(lines, start=1):
        problem = form_problem(line, form)
        if problem is not None:
            raise ConfigError(f"{path}:{number}: {problem}. Repair or remove the line.")
    return [json.loads(line) for line in lines]


def form_problem(text: Union[str, bytes], form: Any) -> Optional[str]:
    """Where JSON differs from a form, or None if it does not."""
    try:
        pydantic.TypeAdapter(form).validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            return str(first["msg"])
        place = path_text(first["loc"])
        if first["type"] == "missing":
            return f"{place} is missing"
        expected = first["msg"].removeprefix("Input should be ")
        return f"{place}: got {value_text(first['input'])}, expected {expected}"
    return None


def copy_folder(source: str, target: str) -> None:
    """Copies a folder and its content; the copy is not atomic."""
    for path, _, names in tf.io.gfile.walk(source):
        inner = os.path.relpath(path, source)
        # A store would take the dot for a name.
        folder = target if inner == os.curdir else os.path.join(target, inner)
        tf.io.gfile.makedirs(folder)
        for name in names:
            tf.io.gfile.copy(os.path.join(path, name), os.path.join(folder, name))


def remove_folder(path: str) -> None:
    """Removes a local folder and its content. Of a symbolic link, only the link is removed."""
    if os.path.islink(path):
        os.remove(path)
    else:
        shutil.rmtree(path)


def plain(value: Any) -> Any:
    """A value for JSON: numbers that are not finite become None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
