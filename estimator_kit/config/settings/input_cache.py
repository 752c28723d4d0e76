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
        "Keep transformed rows in this folder, on a local disk, for later epochs and later "
        "runs: training and evaluation read them instead of parsing their files anew. A file, a "
        "spec, a vocabulary or a version that changed is transformed again. Several runs may "
        "use one folder. The first run is slower by the writing.",
    )
    input_cache_gib: Optional[Annotated[float, Field(gt=0, allow_inf_nan=False)]] = setting(
        None,
        "GiB that --input_cache_dir may hold, 20 without this flag; the files used longest ago "
        "are removed for room.",
    )
