"""What is done about files that are damaged and records that cannot be used."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Optional

from pydantic import Field

from estimator_kit.config.settings.base import Count, Settings, setting

CorruptDataPolicy = Literal["fail", "skip_record", "quarantine"]


class BadDataSettings(Settings):
    """What is done about files that are damaged and records that cannot be used."""

    heading: ClassVar[str] = "Damaged data"

    corrupt_data_policy: CorruptDataPolicy = setting(
        "fail",
        "What to do about files that are damaged and records that the spec cannot use. fail: "
        "stop, and name file, byte and reason. skip_record: read the good records alone. "
        "quarantine: leave out each file with a bad record, and list it. The last two read all "
        "files once before anything else; counts are in result.json, the files in "
        "model_dir/bad_data.json.",
    )
    max_bad_records: Optional[Annotated[Count, Field(strict=True)]] = setting(
        None,
        "With --corrupt_data_policy=skip_record or quarantine: more bad records than this, in "
        "the files of one flag, stop the run (exit status 65) before it begins.",
    )
    max_bad_fraction: Optional[Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]] = setting(
        None,
        "The same for the share of records, or of bytes where that is larger, that is left out "
        "of the files of one flag: 0.01 is one in a hundred.",
    )
