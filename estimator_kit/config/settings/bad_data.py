"""What to do with damaged files and with records that do not fit the spec."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Optional

from pydantic import Field

from estimator_kit.config.settings.base import Count, Settings, setting

CorruptDataPolicy = Literal["fail", "skip_record", "quarantine"]


class BadDataSettings(Settings):
    """What to do with damaged files and with records that do not fit the spec."""

    heading: ClassVar[str] = "Damaged data"

    corrupt_data_policy: CorruptDataPolicy = setting(
        "fail",
        "What to do with damaged files and with records that do not fit the spec. fail: stop "
        "and report the file, the byte and the reason. skip_record: read only the good "
        "records. quarantine: leave out each file that has a bad record, and list it. "
        "skip_record and quarantine first read all files once; the counts are in result.json "
        "and the files in model_dir/bad_data.json.",
        changes="rows scores",
        named=True,
    )
    max_bad_records: Optional[Annotated[Count, Field(strict=True)]] = setting(
        None,
        "With --corrupt_data_policy=skip_record or quarantine: if the files of one flag have "
        "more bad records than this, the run stops before it starts (exit status 65).",
        changes="limits",
    )
    max_bad_fraction: Optional[Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]] = setting(
        None,
        "As --max_bad_records, for the share of records or of bytes that is left out, "
        "whichever is larger: 0.01 is 1 percent.",
        changes="limits",
    )
