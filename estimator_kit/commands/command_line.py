"""The command line beyond single flags: a mode as first word, flags that a mode reads, and help.

    run.py --help              the modes
    run.py serve --help        the flags that this mode reads
    run.py --helpfull          all flags, and the exit statuses

A flag on the command line that the mode does not read is an error. One in a flagfile is not,
because several modes share a flagfile. Imports no TensorFlow.
"""

from __future__ import annotations

import textwrap
import typing
from collections.abc import Collection, Sequence
from typing import Any, Literal, Optional

from estimator_kit import exit_codes
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.flags import value_type
from estimator_kit.config.modes import MODES, PURPOSES
from estimator_kit.config.settings import AREAS, modes_that_read, settings_of
from estimator_kit.errors import ConfigError
from feature_specs.errors import nearest

_HELP = {"--help", "-help", "-h", "--h"}
_HELP_FULL = {"--helpfull", "-helpfull"}

_WIDTH = 100

_OVERVIEW = """\
Trains, evaluates, exports and serves TensorFlow Estimators from a declarative feature spec.

  python run.py --flagfile=exp.flags                 do what the file says: train, evaluate, export
  python run.py validate --flagfile=exp.flags        check flags and spec first
  python run.py MODE --flag=value ...                one of the modes below; or --mode=MODE
  python run.py MODE --help                          the flags that this mode reads

A flagfile holds one --flag=value a line; a flag on the command line goes before one in the file.
"""


def with_mode(arguments: Sequence[str]) -> list[str]:
    """The arguments with `--mode=` in the place of a mode that is the first word.

    Raises:
      ConfigError: the first word is not a mode, or a flag names another mode.
    """
    if not arguments or arguments[0].startswith("-"):
        return list(arguments)
    word, rest = arguments[0], list(arguments[1:])
    if word not in MODES:
        raise ConfigError(
            f"{word!r} is not a mode{nearest(word, MODES) or '.'} --help lists the modes. Every "
            "other argument is --flag=value."
        )
    named = _mode_flag(rest)
    if named not in (None, word):
        raise ConfigError(f"the mode is given twice, as {word} and as --mode={named}; drop one")
    return [f"--mode={word}", *rest]


def asked_help(arguments: Sequence[str]) -> Optional[str]:
    """The help that a command line asks for, or None where it asks for none."""
    if _HELP_FULL.intersection(arguments):
        return full_help()
    if not _HELP.intersection(arguments):
        return None
    mode = _mode_flag(arguments)
    if mode is None:
        return overview()
    if mode not in MODES:
        raise ConfigError(f"--mode={mode} is not a mode{nearest(mode, MODES) or '.'} See --help.")
    return mode_help(mode)


def check_read(arguments: Sequence[str], mode: str) -> None:
    """Checks that the mode reads every flag of a command line.

    Args:
      arguments: of the command line; flags inside a flagfile are not looked at.
      mode: what is to be done.

    Raises:
      ConfigError: it does not; the message names the modes that do.
    """
    read = settings_of(mode)
    problems = [
        f"--{name} is not read by --mode={mode}, but by {_listed(_users(name))}; drop it"
        for name in dict.fromkeys(_names(arguments))
        if name not in read
    ]
    if problems:
        raise ConfigError("\n".join(problems))


def overview() -> str:
    """What there is, on one screen."""
    lines = [_OVERVIEW.rstrip(), ""]
    width = max(map(len, MODES))
    for purpose in PURPOSES:
        lines.append(f"{purpose}:")
        lines += [
            f"  {mode:<{width}}  {entry.help}"
            for mode, entry in MODES.items()
            if entry.purpose == purpose
        ]
    lines += ["", "All flags and the exit statuses: --helpfull"]
    return "\n".join(lines)


def mode_help(mode: str) -> str:
    """The flags that a mode reads, by area."""
    head = textwrap.fill(f"python run.py {mode}: {MODES[mode].help}", _WIDTH)
    return "\n".join([head, *_flags(settings_of(mode) - {"mode"})])


def full_help() -> str:
    """Everything."""
    codes = [f"  {code:>3}  {text}" for code, text in exit_codes.MEANING.items()]
    return "\n".join(
        [overview(), *_flags(ExperimentConfig.model_fields), "", "Exit statuses:", *codes]
    )


def _flags(names: Collection[str]) -> list[str]:
    lines = []
    for area in AREAS:
        shown = [name for name in area.model_fields if name in names]
        if shown:
            lines += ["", area.heading]
        for name in shown:
            field = ExperimentConfig.model_fields[name]
            lines.append(f"  {_usage(name)}{_default(field.default)}")
            lines += textwrap.wrap(
                str(field.description),
                _WIDTH,
                initial_indent="      ",
                subsequent_indent="      ",
                break_on_hyphens=False,
            )
    return lines


def _usage(name: str) -> str:
    kind = value_type(name)
    if kind is bool:
        return f"--{name}, --no{name}"
    if typing.get_origin(kind) is Literal:
        choices = "|".join(typing.get_args(kind))
        return f"--{name}={'MODE' if name == 'mode' else choices}"
    if kind == tuple[str, ...]:
        return f"--{name}=A,B,..."
    words: dict[Any, str] = {int: "INTEGER", float: "NUMBER", str: "TEXT"}
    return f"--{name}={words.get(kind, 'NAME=VALUE')}"


def _default(value: Any) -> str:
    if value in (None, "", (), {}):
        return ""
    text = ",".join(value) if isinstance(value, tuple) else str(value).lower()
    return f"  (default: {value if isinstance(value, str) else text})"


def _users(name: str) -> list[str]:
    """The modes that read a setting; validate, which reads all, only if it is the only one."""
    modes = modes_that_read(name)
    return [mode for mode in modes if mode != "validate"] or modes


def _listed(modes: Sequence[str]) -> str:
    return modes[0] if len(modes) == 1 else f"{', '.join(modes[:-1])} and {modes[-1]}"


def _mode_flag(arguments: Sequence[str]) -> Optional[str]:
    """What the last `--mode` of a command line says."""
    found = None
    for i, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in ("--mode", "-mode"):
            found = value if equals else next(iter(arguments[i + 1 :]), None)
    return found


def _names(arguments: Sequence[str]) -> list[str]:
    """The names of the settings that arguments give."""
    fields = ExperimentConfig.model_fields
    found = []
    for argument in arguments:
        name = argument.partition("=")[0].lstrip("-") if argument.startswith("-") else ""
        name = name if name in fields else name.removeprefix("no")
        if name in fields:
            found.append(name)
    return found
