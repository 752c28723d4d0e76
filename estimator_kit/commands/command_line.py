"""The command line beyond single flags: a mode as the first word, flags of a mode, and help.

    run.py --help              lists the modes
    run.py serve --help        lists the flags that this mode reads
    run.py --helpfull          lists all flags and the exit statuses

A flag on the command line that the mode does not read is an error. In a flagfile it is not, because
several modes can share a flagfile. Imports no TensorFlow.
"""

from __future__ import annotations

import textwrap
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Optional

from estimator_kit import exit_codes
from estimator_kit.config.areas import AREAS
from estimator_kit.config.areas.program import Program
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.flags import CommandLine, value_type
from estimator_kit.config.modes import (
    MODES,
    PURPOSES,
    alternatives,
    modes_that_read,
    refusals,
    settings_of,
)
from estimator_kit.config.removed import mode_hint
from estimator_kit.errors import ConfigError

_WIDTH = 100

_OVERVIEW = """\
Trains, evaluates, exports and serves TensorFlow Estimators from a declarative feature spec.

  python run.py --flagfile=exp.flags            train, evaluate and export as the file says
  python run.py validate --flagfile=exp.flags   check the flags and the spec first
  python run.py MODE --flag=value ...           run one of the modes below; or use --mode=MODE
  python run.py MODE --help                     list the flags that this mode reads

A flagfile has one --flag=value on each line. A flag on the command line overrides the flagfile.
"""


def with_mode(arguments: Sequence[str]) -> list[str]:
    """The arguments, with `--mode=` before a mode that is the first word.

    Raises:
      ConfigError: the command line is empty, or its first word is not a mode.
    """
    if not arguments:
        raise ConfigError(
            "the command line is empty. Start with `python run.py --flagfile=exp.flags`, or see "
            "`python run.py --help`."
        )
    word, *rest = arguments
    if word.startswith("-"):
        return list(arguments)
    if word not in MODES:
        raise ConfigError(
            f"the command line: expected --flag=value or a mode, got {word!r}{mode_hint(word)}"
        )
    return [f"--mode={word}", *rest]


def asked_help(line: CommandLine) -> Optional[str]:
    """The help that a command line asks for, or None if it asks for none."""
    if line.has("helpfull"):
        return full_help()
    if not line.has("help"):
        return None
    mode = line.values["mode"]
    if not mode.present:
        return overview()
    if mode.value not in MODES:
        raise ConfigError(f"--mode: unknown mode {mode.value!r}{mode_hint(mode.value)}")
    return mode_help(str(mode.value))


def check_read(line: CommandLine, mode: str) -> None:
    """Checks that the mode reads every flag of the command line; flagfiles may hold others.

    Raises:
      ConfigError: it does not; the message names the modes that do.
    """
    read = settings_of(mode)
    remedies = refusals(mode)
    if mode == "retrain" and line.values["cycle"].value:
        remedies = dict.fromkeys(read, "Remove the flag; --cycle trains with its own flags.")
        read = read & {*Program.model_fields, "model_dir", "cycle"}
    problems = [
        f"--mode={mode} does not read --{name}. {remedies.get(name) or _only_for(name)}"
        for name in line.named
        if name in ExperimentConfig.model_fields and name not in read
    ]
    if problems:
        raise ConfigError("\n".join(problems))


def overview() -> str:
    """The modes, on one screen."""
    lines = [_OVERVIEW.rstrip(), ""]
    width = max(map(len, MODES))
    for purpose in PURPOSES:
        lines.append(f"{purpose}:")
        lines += [
            f"  {mode:<{width}}  {entry.help}"
            for mode, entry in MODES.items()
            if entry.purpose == purpose
        ]
    lines += ["", "--helpfull lists all flags and the exit statuses."]
    return "\n".join(lines)


def mode_help(mode: str) -> str:
    """The flags that a mode reads, by area."""
    head = textwrap.fill(f"python run.py {mode}: {MODES[mode].help}", _WIDTH)
    return "\n".join([head, *_flags(settings_of(mode) - {"mode"}, MODES[mode].needs)])


def full_help() -> str:
    """All flags and the exit statuses."""
    codes = [f"  {code:>3}  {text}" for code, text in exit_codes.MEANING.items()]
    return "\n".join(
        [
            overview(),
            *_flags(ExperimentConfig.model_fields, modes=True),
            "",
            "Exit statuses:",
            *codes,
        ]
    )


def _flags(
    names: Collection[str],
    needs: Mapping[str, Sequence[str]] = types.MappingProxyType({}),
    *,
    modes: bool = False,
) -> list[str]:
    """The usage and help of settings, by area; with `modes`, also which modes read each one."""
    lines = []
    for area in AREAS:
        shown = [name for name in area.model_fields if name in names]
        if shown:
            lines += ["", area.heading]
        for name in shown:
            field = ExperimentConfig.model_fields[name]
            lines.append(f"  {_usage(name)}{_needed(name, needs)}{_default(field.default)}")
            some = modes and modes_that_read(name) != [*MODES]
            users = f" (Modes: {', '.join(_users(name))}.)" if some else ""
            lines += textwrap.wrap(
                f"{field.description}{users}",
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


def _needed(name: str, needs: Mapping[str, Sequence[str]]) -> str:
    if name not in needs:
        return ""
    if not needs[name]:
        return "  (required)"
    return f"  (required unless you give {alternatives(needs[name])})"


def _default(value: Any) -> str:
    if value in (None, "", (), {}):
        return ""
    text = ",".join(value) if isinstance(value, tuple) else str(value).lower()
    return f"  (default: {value if isinstance(value, str) else text})"


def _users(name: str) -> list[str]:
    """The modes that read a setting, without validate, which reads all, if there are others."""
    modes = modes_that_read(name)
    return [mode for mode in modes if mode != "validate"] or modes


def _only_for(name: str) -> str:
    *others, last = _users(name)
    listed = f"{', '.join(others)} and {last}" if others else last
    return f"Remove the flag; it is for {listed}."
