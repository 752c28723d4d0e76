"""What to do with damaged records, and how rows are read for evaluation and prediction.

Imports no TensorFlow.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Optional

from pydantic import Field

from estimator_kit.config.areas.base import Count, PositiveInt, Settings, setting

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


def problems(reading: Reading) -> list[str]:
    """Limits without what they limit, and names that cannot be a file's."""
    found = []
    for field in ("max_bad_records", "max_bad_fraction"):
        if getattr(reading, field) is not None and reading.corrupt_data_policy == "fail":
            found.append(
                f"--{field} is a limit for --corrupt_data_policy=skip_record or quarantine, but "
                "the policy fail stops at the first bad record. Choose another policy, or remove "
                f"--{field}."
            )
    if reading.input_cache_gib is not None and reading.input_cache_dir is None:
        found.append(
            "--input_cache_gib is a limit of --input_cache_dir, which is missing. Give the folder "
            "too."
        )
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.\-]*", reading.eval_name):
        found.append(
            "--eval_name: expected letters, digits, _, - and ., because files get this name, "
            f"got {reading.eval_name!r}."
        )
    return found
