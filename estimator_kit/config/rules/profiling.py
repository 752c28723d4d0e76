"""Which settings of profiles go together. Imports no TensorFlow."""

from __future__ import annotations

from estimator_kit.config import step_range
from estimator_kit.config.settings import AllSettings


def problems(config: AllSettings) -> list[str]:
    """What is wrong with `--profile`, and what does not go together with `--timeline`."""
    found = []
    if config.profile is not None:
        try:
            steps = step_range.parse(config.profile)
        except ValueError as error:
            found.append(f"--profile: {error}.")
        else:
            if config.max_steps is not None and steps[0] > config.max_steps:
                found.append(
                    f"--profile: expected a first step of at most --max_steps={config.max_steps}, "
                    f"got {config.profile!r}. Choose earlier steps, or raise --max_steps."
                )
    if config.timeline and (config.profile is not None or config.profile_input):
        flag = "--profile" if config.profile is not None else "--profile_input"
        found.append(
            f"--timeline does not go with {flag}: a device can be traced by only one of them. Give "
            "one of them."
        )
    return found
