"""Finds lines of a flagfile that absl would not read as their author meant them.

In an absl flagfile, a trailing `# comment` and quotes become part of the value, `$HOME` is not
expanded, and `--flag value` on one line is one unknown flag. absl does not say where an unknown
flag stands. This module reports each of these as an error with file and line, before absl reads the
file. A flag on the command line overrides the same flag in a flagfile, wherever it stands. This
module never changes a flag.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence

from estimator_kit.config import removed
from estimator_kit.errors import ConfigError
from feature_specs.errors import nearest

# The most flags that a hint names.
_HINTED = 4

_FLAGFILE = re.compile(r"^--?flagfile(?:=(.*))?$")


def check_flagfiles(arguments: Sequence[str], flag_names: Collection[str] = ()) -> None:
    """Checks every flagfile that a command line names, and the flagfiles that these name.

    Args:
      arguments: the command line.
      flag_names: of all flags; if it is empty, names are not checked.

    Raises:
      ConfigError: a file cannot be read, or a line would not mean what it says; the message lists
        all wrong lines.
    """
    problems: list[str] = []
    for argument in split_flagfiles(arguments)[0]:
        path = argument.partition("=")[2]
        if path:
            _check_file(os.path.expanduser(path), "the command line", flag_names, problems, ())
        else:
            problems.append("the command line: --flagfile has no path. Write --flagfile=path.")
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))


def split_flagfiles(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The flagfiles of a command line, as `--flagfile=path`, and its other arguments.

    absl reads a flagfile where it stands, and the file overrides the flags before it. If the
    flagfiles are read first, every flag on the command line overrides them.
    """
    flagfiles, others, waiting = [], [], list(arguments)
    while waiting:
        argument = waiting.pop(0)
        match = _FLAGFILE.match(argument)
        if argument == "--":
            others += [argument, *waiting]
            break
        if not match:
            others.append(argument)
        elif match[1] is not None:
            flagfiles.append(f"--flagfile={match[1]}")
        else:
            flagfiles.append(f"--flagfile={waiting.pop(0) if waiting else ''}")
    return flagfiles, others


def _check_file(
    path: str, where: str, flag_names: Collection[str], problems: list[str], outer: tuple[str, ...]
) -> None:
    try:
        real = os.path.realpath(path)
        if real in outer:
            problems.append(f"{where}: the flagfile {path!r} includes itself. Remove the line.")
            return
        outer += (real,)
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except (
        OSError,
        ValueError,
    ) as error:  # Also a path with a NUL character, or text that is not UTF-8.
        reason = getattr(error, "strerror", None) or str(error)
        hint = "" if os.path.isabs(path) else f" Relative paths start at {os.getcwd()}."
        problems.append(f"{where}: cannot read the flagfile {path!r}: {reason}.{hint}")
        return
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        place = f"{path}:{number}"
        if line.startswith("\ufeff"):
            problems.append(
                f"{place}: the file starts with a byte order mark, which becomes part of the first "
                "line. Save the file as UTF-8 without it."
            )
            continue
        if line[:1].isspace() and (text.startswith(("#", "//")) or _FLAGFILE.match(text)):
            problems.append(
                f"{place}: {text!r}: absl recognizes comments and --flagfile only in the first "
                "column. Remove the indent."
            )
            continue
        if not text or text.startswith(("#", "//")):
            continue
        problem = _line_problem(text) or _name_problem(text, flag_names, path, len(outer) > 1)
        match = _FLAGFILE.match(text)
        if problem:
            problems.append(f"{place}: {text!r}: {problem}")
        elif match:
            _check_file(os.path.expanduser(match[1]), place, flag_names, problems, outer)


def _name_problem(text: str, flag_names: Collection[str], path: str, is_included: bool) -> str:
    name = text.partition("=")[0].lstrip("-")
    if not flag_names or name in flag_names or name in ("flagfile", "undefok"):
        return ""
    if removed.is_readable(text, path, is_included=is_included):
        return ""
    return f"unknown flag --{name}{flag_hint(name, flag_names)}"


def flag_hint(name: str, flag_names: Collection[str]) -> str:
    """`. Did you mean --a or --b?` for flags that have all words of a name, or the nearest one.

    If no flag is near, it may be a parameter of a model, or an absl flag of the model's module. For
    a flag of an earlier version, what to do instead.
    """
    if removed.hint(name):
        return removed.hint(name)
    words = set(name.split("_"))
    longer = sorted(flag for flag in flag_names if words <= set(flag.split("_")))
    if len(words) > 1 and 0 < len(longer) <= _HINTED:
        return f". Did you mean {' or '.join(f'--{flag}' for flag in longer)}?"
    parameter = f". To set a parameter of the model, write --model_params={name}=value."
    return nearest(name, flag_names) or parameter


def _line_problem(text: str) -> str:
    if not text.startswith("-"):
        return "expected --flag=value or a comment that starts with #."
    if text == "--":
        return "this line ends the flags. Remove it."
    name, equals, value = text.partition("=")
    flagfile = name.lstrip("-") == "flagfile"
    if flagfile and not value:
        return "--flagfile has no path. Write --flagfile=path."
    if name.endswith((" ", "\t")) or value.startswith((" ", "\t")):
        return "the equals sign has a space next to it. Remove the space."
    if not equals and re.search(r"\s", name):
        return "absl reads the whole line as one flag. Write --flag=value with an equals sign."
    if re.search(r"\s(#|//)", value):
        return "a comment after a value becomes part of the value. Write it on its own line."
    listed = value[:1] == '"' and "," in value  # absl's list flags read these as CSV.
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" and not listed:
        return "quotes become part of the value. Remove them."
    if re.search(r"\$[{(]?\w", value):
        return "a flagfile does not expand variables. Write the value itself."
    if value.startswith("~") and not flagfile:
        return "a flagfile does not expand ~. Write the full path."
    return ""
