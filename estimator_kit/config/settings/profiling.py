"""What is measured of the time of training steps."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.settings.base import Settings, setting


class ProfileSettings(Settings):
    """What is measured of the time of training steps."""

    heading: ClassVar[str] = "Profiles"

    profile: Optional[str] = setting(
        None,
        "Profile these steps of this start, such as 100..200. Report the ten most expensive ops, "
        "and how the time of a step divides into input, host and devices. The trace stays below "
        "--model_dir/plugins/profile; TensorBoard shows it with the extra 'profile'.",
        changes="nothing",
    )
    profile_input: bool = setting(
        False,
        "Profile a hundred of the first steps, or the steps of --profile. Report how much of their "
        "time they wait for input, which stage of the input is slowest, and what to change. The "
        "trace stays below --model_dir/plugins/profile.",
        changes="nothing",
    )
    timeline: bool = setting(
        False,
        "Write a trace of one step in every --summary_steps steps to --model_dir/timeline, as JSON "
        "that Chrome shows under chrome://tracing.",
        changes="nothing",
    )
