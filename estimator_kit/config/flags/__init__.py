"""The command line: absl flags, each documented here, and the ExperimentConfig they make.

The only package that knows absl flags; a module of it for each part of the work. A flagfile holds
one `--flag=value` a line; flags after `--flagfile` override it. Imports no TensorFlow.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from absl import flags

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.flagfile import check_flagfiles
from estimator_kit.config.flags import (
    cluster,
    exports,
    reading,
    retraining,
    running,
    serving,
    tables,
    training,
)
from estimator_kit.config.flags.definer import DEFAULTS, Definer
from estimator_kit.errors import ConfigError
from feature_specs.errors import SpecError, path_text
from feature_specs.parser.yaml_reader import read_text


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the kit's flags; their defaults are those of `ExperimentConfig`."""
    define = Definer(values)
    for group in (running, reading, training, exports, cluster, tables, serving, retraining):
        group.define_flags(define)


def known_names(values: flags.FlagValues) -> set[str]:
    """What may stand before the equals sign: names of flags, and no<name> of those that are on or
    off."""
    switches = {f"no{name}" for name in values if values[name].boolean}
    return {*values, *switches}


def config_from_flags(values: flags.FlagValues = flags.FLAGS) -> ExperimentConfig:
    """The ExperimentConfig that parsed flags describe.

    Raises:
      ConfigError: a value is wrong, or flags do not go together.
    """
    # Without what is left at its default: so a config knows what was asked for.
    given = {name: values[name].value for name in DEFAULTS if not _is_default(values[name], name)}
    if "model_params" in given:
        given["model_params"] = _model_params(given["model_params"] or [])
    return ExperimentConfig(**{name: value for name, value in given.items() if value is not None})


def _is_default(flag: flags.Flag, name: str) -> bool:
    default = DEFAULTS[name]
    value = tuple(flag.value) if isinstance(default, tuple) and flag.value else flag.value
    return flag.using_default_value and (value == default or not (value or default))


def config_from_flagfile(path: str) -> ExperimentConfig:
    """The ExperimentConfig that a flagfile alone describes, as the `flags.txt` of a run.

    Raises:
      ConfigError: it cannot be read, a value is wrong, or flags do not go together.
    """
    arguments = ["program", f"--flagfile={path}"]
    values = flags.FlagValues()
    define_flags(values)
    check_flagfiles(arguments[1:], known_names(values))
    try:
        values(arguments)
    except flags.Error as error:
        raise ConfigError(f"{path}: {error}") from error
    return config_from_flags(values)


def _model_params(entries: Sequence[str]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for entry in entries:
        if not entry:
            params = {}
            continue
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--model_params: got {entry!r}, expected name=value")
        try:
            params[name.strip()] = read_text(value, f"--model_params={name}")[0]
        except SpecError as error:
            problem = error.problems[0]
            raise ConfigError(
                f"--model_params: the value of {entry!r}: {path_text(problem.path)}: "
                f"{problem.message}"
            ) from error
    return params


def resolved_flags(config: ExperimentConfig) -> str:
    """The config as a flagfile that makes the same config again, one flag a line, sorted."""
    lines = []
    for name, value in sorted(config.model_dump().items()):
        if value is None or (value == () and not DEFAULTS[name]):
            continue
        if name == "model_params":
            lines += [f"--model_params={key}={_yaml(v)}" for key, v in sorted(value.items())]
        elif isinstance(value, bool):
            lines.append(f"--{'' if value else 'no'}{name}")
        else:
            text = _comma_separated(value) if isinstance(value, tuple) else str(value)
            lines.append(f"--{name}={text}")
    return "\n".join(lines) + "\n"


def _yaml(value: Any) -> str:
    """A parameter's value on one line, without what `flagfile` would take for a mistake."""
    text = json.dumps(value)
    return text.replace("#", r"\u0023").replace("$", r"\u0024").replace("//", r"/\u002f")


def _comma_separated(values: tuple[str, ...]) -> str:
    """A list as absl's list flags read it: commas inside a value are quoted."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()
