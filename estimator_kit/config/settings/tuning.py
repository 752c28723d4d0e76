"""What `--mode=tune` searches, in how many processes, and what scores its result."""

from __future__ import annotations

from typing import Annotated, ClassVar, Optional

from pydantic import Field

from estimator_kit.config.settings.base import MOST_DEVICES, Settings, setting


class TuningSettings(Settings):
    """What `--mode=tune` searches, in how many processes, and what scores its result."""

    heading: ClassVar[str] = "Search for settings"

    search: Optional[str] = setting(
        None,
        "A YAML file with the parameters to search, their ranges and choices, the metric, and the "
        "number of trials. The guide Search describes it. --eval_files guide the search.",
        changes="",
        named=True,
    )
    tune_processes: Annotated[int, Field(ge=1, le=MOST_DEVICES, strict=True)] = setting(
        1,
        "How many trials this command trains at the same time, each in its own process. The same "
        "command on other machines, with the same --model_dir on a shared disk, works at the same "
        "search.",
        changes="nothing",
    )
    test_files: tuple[str, ...] = setting(
        (),
        "TFRecord files that score the best trial once, at the end of the search. They never "
        "guide it.",
        changes="scores",
        named=True,
    )
