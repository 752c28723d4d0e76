"""The cache of transformed rows on a local disk."""

from __future__ import annotations

from typing import Annotated, ClassVar, Optional

from pydantic import Field

from estimator_kit.config.settings.base import Settings, setting


class InputCacheSettings(Settings):
    """The cache of transformed rows on a local disk."""

    heading: ClassVar[str] = "Cache of transformed rows"

    input_cache_dir: Optional[str] = setting(
        None,
        "Keep transformed rows in this folder on a local disk. Later epochs and later runs "
        "read them instead of parsing the files again, in training and in evaluation. If a "
        "file, the spec, a vocabulary or a version changes, its rows are transformed again. "
        "Several runs can share one folder. The first run is slower, because it writes the "
        "rows.",
        changes="nothing",
    )
    input_cache_gib: Optional[Annotated[float, Field(gt=0, allow_inf_nan=False)]] = setting(
        None,
        "The most GiB that --input_cache_dir may hold, 20 by default. To make room, the files "
        "that were used longest ago are removed.",
        changes="nothing",
    )
