"""What to do with damaged records, and how rows are read for evaluation and prediction.

Imports no TensorFlow.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Optional

import pydantic
from pydantic import Field
from pydantic_core import PydanticCustomError

from estimator_kit.config.areas.base import PositiveInt, Settings, setting

_SHARE = re.compile(r"[0-9]*\.[0-9]+|[0-9](\.[0-9]+)?e-[0-9]+|[0-9]+(\.[0-9]+)?%")
_EXPECTED = "a number of records, such as 10, or a share below 1, such as 0.01 or 1%"

# What --input_cache_dir says to keep no rows.
OFF = "off"

CorruptDataPolicy = Literal["fail", "skip_record", "quarantine"]


class Reading(Settings):
    """What to do with damaged records, and how rows are read for evaluation and prediction."""

    heading: ClassVar[str] = "How records are read"

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
    max_bad: Optional[str] = setting(
        None,
        "With --corrupt_data_policy=skip_record or quarantine: the run stops before it starts "
        "(exit status 65) if the files of one flag have more bad data than this. 10: records. 0.01 "
        "or 1%: the share of records or of bytes that is left out, whichever is larger.",
        changes="limits",
    )
    input_cache_dir: Optional[str] = setting(
        None,
        "The folder on a local disk that keeps transformed rows, by default "
        "~/.cache/estimator_kit/rows. Later epochs and later runs read them instead of parsing the "
        "files again, in training and in evaluation. If a file, the spec, a vocabulary or a "
        "version changes, its rows are transformed again. Several runs can share one folder. "
        "Without the flag, a training of fewer than 20,000 rows keeps none, as it would start "
        "later than it gains. The records of tables are in the folder records in it, by default in "
        "~/.cache/estimator_kit/records. off: keep nothing; the records of tables are removed at "
        "the end of the run.",
        changes="nothing",
    )
    input_cache_gib: Optional[Annotated[float, Field(gt=0, allow_inf_nan=False)]] = setting(
        None,
        "The most GiB that the folder of transformed rows may hold. By default 20, or a tenth of "
        "the free space of the disk if that is less. To make room, the files that were used "
        "longest ago are removed, and any file after 30 days without use. The records of tables "
        "have the same limit for themselves; those that a run reads stay.",
        changes="nothing",
    )
    eval_batch_size: PositiveInt = setting(
        2048,
        "Rows in each step of evaluation and prediction.",
        changes="scores",
    )
    eval_steps: Optional[PositiveInt] = setting(
        None,
        "Batches in each evaluation; by default all of --eval_files.",
        changes="scores",
    )
    eval_name: str = setting(
        "evaluate",
        "The name of the evaluation. Its metrics are written to evaluation-<name>.json in "
        "--model_dir, and for TensorBoard to the folder eval_<name> (the metrics of an export "
        "only to the file). A later evaluation with the same name replaces the file, but the "
        "evaluation of an export never replaces the file of a checkpoint.",
        changes="nothing",
    )

    @pydantic.field_validator("max_bad", mode="before")
    @classmethod
    def _records_or_share(cls, value: Any) -> Any:
        text = str(value)
        if value is None or text.isdecimal():
            return value if value is None else text
        if not _SHARE.fullmatch(text):
            raise PydanticCustomError("max_bad", _EXPECTED)
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
        if share >= 1:
            raise PydanticCustomError("max_bad", _EXPECTED)
        return repr(share)

    @property
    def named_cache(self) -> Optional[str]:
        """The folder that the user names for transformed rows; None by default, and if off."""
        return None if self.input_cache_dir == OFF else self.input_cache_dir

    @property
    def max_bad_records(self) -> Optional[int]:
        """The most bad records, if `max_bad` is their number."""
        return int(self.max_bad) if self.max_bad is not None and self.max_bad.isdecimal() else None

    @property
    def max_bad_share(self) -> Optional[float]:
        """The largest share of bad data, if `max_bad` is a share."""
        is_share = self.max_bad is not None and self.max_bad_records is None
        return float(str(self.max_bad)) if is_share else None


def problems(reading: Reading) -> list[str]:
    """Limits without what they limit, and names that cannot be a file's."""
    lines = []
    if reading.max_bad is not None and reading.corrupt_data_policy == "fail":
        lines.append(
            "--max_bad is a limit for --corrupt_data_policy=skip_record or quarantine, but the "
            "policy fail stops at the first bad record. Choose another policy, or remove --max_bad."
        )
    if reading.input_cache_gib is not None and reading.input_cache_dir == OFF:
        lines.append("--input_cache_gib limits a cache, but --input_cache_dir=off. Remove one.")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\-]*", reading.eval_name):
        lines.append(
            "--eval_name: expected letters, digits, _, - and ., because files get this name, "
            f"got {reading.eval_name!r}."
        )
    return lines
