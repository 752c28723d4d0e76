"""Finds what absl reads from a flagfile differently than it was meant.

In an absl flagfile a trailing `# comment` and quotes become part of the value, `$HOME` is not
expanded, `--flag value` on one line is one unknown flag, and an unknown flag is named without its
place. Each is an error here, with file and line, before absl reads the file. A flag of the command
line goes before one of the file, wherever it stands. Never changes a flag.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence

from estimator_kit.errors import ConfigError
from feature_specs.errors import nearest

# Flags that a hint names.
_HINTED = 4

_FLAGFILE = re.compile(r"^--?flagfile(?:=(.*))?$")


def check_flagfiles(arguments: Sequence[str], known: Collection[str] = ()) -> None:
    """Checks every flagfile that a command line names, and those that they name in turn.

    Args:
      arguments: of the command line.
      known: names of all flags; where it is empty, names are not looked at.

    Raises:
      ConfigError: a file cannot be read, or a line would not mean what it says; all lines that are
        wrong are listed.
    """
    problems: list[str] = []
    for argument in flagfiles_first(arguments):
        match = _FLAGFILE.match(argument)
        if not match:
            break
        if match[1]:
            _check_file(os.path.expanduser(match[1]), "the command line", known, problems, ())
        else:
            problems.append("the command line: write --flagfile=path")
    if problems:
        raise ConfigError("\n".join(dict.fromkeys(problems)))


def flagfiles_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with every flagfile in front, so that each flag beside them overrides them.

    absl reads a flagfile where it stands, so that the file would override what comes before it.
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
    return flagfiles + others


def _check_file(
    path: str, where: str, known: Collection[str], problems: list[str], outer: tuple[str, ...]
) -> None:
    try:
        real = os.path.realpath(path)
        if real in outer:
            problems.append(f"{where}: {path!r} includes itself; remove the line")
            return
        outer += (real,)
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except (OSError, ValueError) as error:  # As of a path with a NUL, or text that is no UTF-8.
        reason = getattr(error, "strerror", None) or str(error)
        hint = "" if os.path.isabs(path) else f"; relative paths start at {os.getcwd()}"
        problems.append(f"{where}: cannot read the flagfile {path!r}: {reason}{hint}")
        return
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        place = f"{path}:{number}"
        if line.startswith("\ufeff"):
            problems.append(
                f"{place}: the file begins with a byte order mark, which becomes part of the first "
                "line; save it as UTF-8 without one"
            )
            continue
        if line[:1].isspace() and (text.startswith(("#", "//")) or _FLAGFILE.match(text)):
            problems.append(
                f"{place}: {text!r}: absl knows comments and --flagfile in the first column only; "
                "remove the indent"
            )
            continue
        if not text or text.startswith(("#", "//")):
            continue
        problem = _line_problem(text) or _name_problem(text, known)
        match = _FLAGFILE.match(text)
        if problem:
            problems.append(f"{place}: {text!r}: {problem}")
        elif match:
            _check_file(os.path.expanduser(match[1]), place, known, problems, outer)


def _name_problem(text: str, known: Collection[str]) -> str:
    name = text.partition("=")[0].lstrip("-")
    if not known or name in known or name in ("flagfile", "undefok"):
        return ""
    return f"there is no flag --{name}{flag_hint(name, known)}"


def flag_hint(name: str, known: Collection[str]) -> str:
    """`. Did you mean --a or --b?` for flags that have all words of a name, or the nearest one."""
    words = set(name.split("_"))
    longer = sorted(flag for flag in known if words <= set(flag.split("_")))
    if len(words) > 1 and 0 < len(longer) <= _HINTED:
        return f". Did you mean {' or '.join(f'--{flag}' for flag in longer)}?"
    return nearest(name, known)


def _line_problem(text: str) -> str:
    if not text.startswith("-"):
        return "a line is --flag=value, or a comment that starts with #"
    if text == "--":
        return "ends the flags; remove it"
    name, equals, value = text.partition("=")
    flagfile = name.lstrip("-") == "flagfile"
    if flagfile and not value:
        return "write --flagfile=path"
    if name.endswith((" ", "\t")) or value.startswith((" ", "\t")):
        return "write --flag=value without blanks around the equals sign"
    if not equals and re.search(r"\s", name):
        return "write --flag=value with an equals sign; absl reads the whole line as one flag"
    if re.search(r"\s(#|//)", value):
        return "a comment after a value becomes part of it; put it on a line of its own"
    listed = value[:1] == '"' and "," in value  # absl's list flags read these as CSV.
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" and not listed:
        return "quotes become part of the value; leave them out"
    if re.search(r"\$[{(]?\w", value):
        return "variables are not expanded in a flagfile; write the value out"
    if value.startswith("~") and not flagfile:
        return "~ is not expanded in a flagfile; write the folder out"
    return ""
