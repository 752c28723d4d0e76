"""`Definer`: defines absl flags whose names and defaults are fields of `ExperimentConfig`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from absl import flags

from estimator_kit.config.experiment_config import ExperimentConfig

DEFAULTS = {name: field.default for name, field in ExperimentConfig.model_fields.items()}


class Definer:
    """One method a type of flag; each takes the flag's name and its help.

    Args:
      values: where the flags are defined.
    """

    def __init__(self, values: flags.FlagValues):
        self._here: dict[str, Any] = {"flag_values": values, "module_name": "estimator_kit"}

    def text(self, name: str, help_text: str) -> None:
        default = DEFAULTS[name] if isinstance(DEFAULTS[name], str) else None
        flags.DEFINE_string(name, default, help_text, **self._here)

    def integer(self, name: str, help_text: str) -> None:
        flags.DEFINE_integer(name, DEFAULTS[name], help_text, **self._here)

    def number(self, name: str, help_text: str) -> None:
        flags.DEFINE_float(name, DEFAULTS[name], help_text, **self._here)

    def switch(self, name: str, help_text: str) -> None:
        flags.DEFINE_bool(name, DEFAULTS[name], help_text, **self._here)

    def choice(self, name: str, choices: Sequence[str], help_text: str) -> None:
        flags.DEFINE_enum(name, DEFAULTS[name], choices, help_text, **self._here)

    def listing(self, name: str, help_text: str) -> None:
        """Values separated by commas."""
        flags.DEFINE_list(name, list(DEFAULTS[name]), help_text, **self._here)

    def repeated(self, name: str, help_text: str) -> None:
        """A flag that may be given several times, for one value each."""
        flags.DEFINE_multi_string(name, [], help_text, **self._here)
