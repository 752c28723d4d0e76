"""The command line: the absl flags of all settings, and the ExperimentConfig that they make.

Each flag is the field of `settings` with the same name, where its type, default and help are
written. No other module defines absl flags. Imports no TensorFlow.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import os
import typing
from collections.abc import Collection, Sequence
from typing import Any, Literal, Union

from absl import flags

from estimator_kit.config.areas import AllSettings
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.flagfile import check_flagfiles, flag_hint, split_flagfiles
from estimator_kit.config.modes import MODES
from estimator_kit.config.removed import PASS_OVER, rewritten
from estimator_kit.errors import ConfigError
from feature_specs.errors import SpecError, path_text
from feature_specs.files import urls
from feature_specs.parser.yaml_reader import read_text

DEFAULTS = {name: field.default for name, field in ExperimentConfig.model_fields.items()}

_OF_ONE_TYPE: dict[Any, Any] = {
    bool: flags.DEFINE_bool,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
    tuple[str, ...]: flags.DEFINE_list,
}


class _OrEmpty(flags.ArgumentParser[Any]):
    """Also takes an empty value, for a setting without a default."""

    def parse(self, argument: Any) -> Any:
        return argument if argument == "" else super().parse(argument)


class _Integer(_OrEmpty, flags.IntegerParser):
    pass


class _Float(_OrEmpty, flags.FloatParser):
    pass


class _Boolean(_OrEmpty, flags.BooleanParser):
    pass


_OR_EMPTY: dict[Any, Any] = {int: _Integer, float: _Float, bool: _Boolean}


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines a flag for each field of `ExperimentConfig`."""
    here: dict[str, Any] = {"flag_values": values, "module_name": "estimator_kit"}
    for name, field in ExperimentConfig.model_fields.items():
        kind, help_text = value_type(name), str(field.description)
        default = field.default
        if typing.get_origin(kind) is Literal:  # The config checks which of them it is.
            flags.DEFINE_string(name, default, help_text, **here)
        elif kind == tuple[str, ...]:
            flags.DEFINE_list(name, list(default), help_text, **here)
        elif kind in _OF_ONE_TYPE:
            _OF_ONE_TYPE[kind](name, default, help_text, **here)
            if default is None and kind in _OR_EMPTY:
                values[name].parser = _OR_EMPTY[kind]()
        else:  # Parameters of the model, each with a name and a value.
            flags.DEFINE_multi_string(name, [], help_text, **here)


def value_type(name: str) -> Any:
    """The type of a field without None and without bounds, as a value of the flag has it."""
    annotation = ExperimentConfig.model_fields[name].annotation
    if typing.get_origin(annotation) is Union:
        (annotation,) = (kind for kind in typing.get_args(annotation) if kind is not type(None))
    bounded = typing.get_origin(annotation) is typing.Annotated
    return typing.get_args(annotation)[0] if bounded else annotation


@dataclasses.dataclass(frozen=True)
class CommandLine:
    """A command line that was read.

    Attributes:
      values: the flags of the command line and of its flagfiles.
      named: the flags that stand on the command line itself.
    """

    values: flags.FlagValues
    named: tuple[str, ...]

    def has(self, switch: str) -> bool:
        """Whether the command line has a switch such as `--help`."""
        return switch in self.named and bool(self.values[switch].value)


def read_command_line(arguments: Sequence[str]) -> CommandLine:
    """Reads flagfiles first, then the flags of the command line, which override them.

    Args:
      arguments: without the program's name.

    Raises:
      ConfigError, flags.Error: an argument is not a flag, a value does not have the type of its
        flag, a flagfile cannot be used, or the mode is given twice.
    """
    values = flags.FlagValues()  # type: ignore[no-untyped-call]
    define_flags(values)
    check_flagfiles(arguments, known_names(values))
    here: dict[str, Any] = {"flag_values": values, "module_name": "estimator_kit"}
    flags.DEFINE_bool("help", False, "Show help.", short_name="h", **here)
    flags.DEFINE_bool("helpfull", False, "Show all flags.", **here)
    flagfiles, others = split_flagfiles(arguments)
    try:
        values(["program", PASS_OVER, *_with_rewritten(flagfiles)])
        before = {name: values[name].present for name in values}
        rest = values(["program", *others])[1:]
    except flags.UnrecognizedFlagError as error:
        name = error.flagname
        raise ConfigError(f"unknown flag --{name}{flag_hint(name, known_names(values))}") from error
    except ValueError as error:  # Such as --noshuffle=1.
        raise ConfigError(f"{error}. Remove the value.") from error
    if rest:
        if all(map(os.path.exists, rest)):
            raise flags.Error(
                f"expected --flag=value, got {len(rest)} more paths, the first one {rest[0]!r}. If "
                "the shell replaced a pattern by file names, put it in quotes, as in "
                "--train_files='data/*'. A flag for a folder, such as --export_dir, takes one path."
            )
        what = "a mode as the first word" if rest[0] in MODES else "every argument as --flag=value"
        raise flags.Error(f"{rest[0]!r} is not a flag. Write {what}.")
    if values["mode"].present - before["mode"] > 1:
        raise ConfigError(
            f"--mode: the mode is given twice, the last time as {values['mode'].value}. Give it "
            "once, as the first word or as --mode."
        )
    named = tuple(name for name in values if values[name].present > before[name])
    return CommandLine(values, named)


def known_names(values: flags.FlagValues) -> set[str]:
    """The names of all flags, and no<name> for each flag that is on or off."""
    switches = {f"no{name}" for name in values if values[name].boolean}
    return {*values, *switches}


def config_from_flags(values: flags.FlagValues = flags.FLAGS) -> ExperimentConfig:
    """The ExperimentConfig that parsed flags describe.

    An empty value removes what a flagfile gave, if the setting has no default: `--train_days=`.

    Raises:
      ConfigError: a value is wrong, or flags do not go together.
    """
    # Settings with their default are left out, so the config knows which ones were set.
    settings = {
        name: values[name].value for name in DEFAULTS if not _is_default(values[name], name)
    }
    if "model_params" in settings:
        settings["model_params"] = _model_params(settings["model_params"] or [])
    return ExperimentConfig(
        **{
            name: value
            for name, value in settings.items()
            if value is not None and (value != "" or DEFAULTS[name] is not None)
        }
    )


def _is_default(flag: flags.Flag[Any], name: str) -> bool:
    default = DEFAULTS[name]
    value = tuple(flag.value) if isinstance(default, tuple) and flag.value else flag.value
    return flag.using_default_value and (value == default or not (value or default))


def config_from_flagfile(path: str) -> ExperimentConfig:
    """The ExperimentConfig of a flagfile without a command line, such as `flags.txt` of a run.

    Raises:
      ConfigError: it cannot be read, a value is wrong, or flags do not go together.
    """
    argument = f"--flagfile={path}"
    values = flags.FlagValues()  # type: ignore[no-untyped-call]
    define_flags(values)
    check_flagfiles([argument], known_names(values))
    try:
        values(["program", PASS_OVER, *_with_rewritten([argument])])
    except (flags.Error, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error
    return config_from_flags(values)


def _with_rewritten(flagfiles: Sequence[str]) -> list[str]:
    """Each flagfile, followed by the flags that replace removed ones in a `flags.txt`."""
    arguments = []
    for argument in flagfiles:
        path = os.path.expanduser(argument.partition("=")[2])
        arguments.append(argument)
        if os.path.basename(path) == "flags.txt":
            with open(path, encoding="utf-8") as file:
                arguments += rewritten(file)
    return arguments


def _model_params(entries: Sequence[str]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for entry in entries:
        if not entry:
            params = {}
            continue
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--model_params: expected name=value, got {entry!r}.")
        try:
            params[name.strip()] = read_text(value, f"--model_params={name}")[0]
        except SpecError as error:
            problem = error.problems[0]
            raise ConfigError(
                f"--model_params: the value of {entry!r}: {path_text(problem.path)}: "
                f"{problem.message}"
            ) from error
    return params


def resolved_flags(config: AllSettings) -> str:
    """A flagfile that makes the same config again, with one flag on each line, sorted."""
    lines = []
    for name, value in sorted(config.model_dump().items()):
        if value is None or (value == () and not DEFAULTS[name]):
            continue
        if name == "model_params":
            lines += [f"--model_params={key}={_yaml(v)}" for key, v in sorted(value.items())]
        elif isinstance(value, bool):
            lines.append(f"--{'' if value else 'no'}{name}")
        else:
            is_list = isinstance(value, tuple)
            text = _comma_separated(urls.given(value)) if is_list else str(value)
            lines.append(f"--{name}={text}")
    return urls.shown("\n".join(lines) + "\n")


def values_in(lines: Sequence[str], names: Collection[str]) -> dict[str, Any]:
    """The values that lines of `resolved_flags` give to settings; else their defaults.

    Another version may have written the lines. What this version cannot read is left out.
    """
    values = flags.FlagValues()  # type: ignore[no-untyped-call]
    define_flags(values)
    new_lines: list[str] = []
    with contextlib.suppress(ConfigError):
        new_lines = rewritten(lines)
    for line in [*lines, *new_lines]:
        name = line[2:].partition("=")[0]
        if name in names or name.removeprefix("no") in names:
            with contextlib.suppress(flags.Error, ValueError):
                values(["program", line])
    return {name: values[name].value for name in sorted(names)}


def _yaml(value: Any) -> str:
    """A parameter's value on one line, without text that `flagfile` would report as a mistake."""
    text = json.dumps(value)
    return text.replace("#", r"\u0023").replace("$", r"\u0024").replace("//", r"/\u002f")


def _comma_separated(values: Sequence[str]) -> str:
    """A list in the form of absl's list flags: values with a comma are quoted."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()
