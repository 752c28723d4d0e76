"""The days of a cycle, the folder that is served, what is kept, and notices."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.settings.base import PositiveInt, Settings, setting
from feature_specs.entry import PositiveFloat

# The stages of a cycle, in their order.
STAGES = ("window", "vocabularies", "checks", "train", "gate", "promote", "clean")


class RetrainingSettings(Settings):
    """The days of a cycle, the folder that is served, what is kept, and notices."""

    heading: ClassVar[str] = "Scheduled retraining"

    as_of: Optional[str] = setting(
        None,
        "The newest day that a cycle may use, such as 2026-01-31; by default today.",
        changes="rows scores",
        named=True,
    )
    window_days: Optional[PositiveInt] = setting(
        None,
        "Train on this many complete days (with _SUCCESS in dt=YYYY-MM-DD): the last ones up "
        "to --as_of, before the days for evaluation. They replace dt=* in --train_files.",
        changes="rows",
        named=True,
    )
    eval_window_days: PositiveInt = setting(
        1,
        "How many of the newest complete days are for evaluation, from --eval_files if given, "
        "else from --train_files.",
        changes="rows scores",
        named=True,
    )
    window_min_days: PositiveInt = setting(
        1,
        "The cycle stops if it has fewer days to train on than this.",
        changes="limits",
    )
    window_min_rows: PositiveInt = setting(
        1,
        "The cycle stops if it has fewer records to train on than this.",
        changes="limits",
    )
    window_max_age_days: Optional[PositiveInt] = setting(
        None,
        "Use no day that is more than this many days before --as_of.",
        changes="rows",
        named=True,
    )
    serving_dir: Optional[str] = setting(
        None,
        "The folder that TensorFlow Serving watches. The highest version in it is the live model. "
        "The default is the folder of the last promotion, and at first model_dir/serving.",
        changes="",
        named=True,
    )
    force: bool = setting(
        False,
        "Run a cycle even if the window, the spec, the code and the flags are the same as in "
        "the last one.",
        changes="nothing",
    )
    keep_cycles: PositiveInt = setting(
        7,
        "Keep the checkpoints, exports and vocabularies of this many of the newest cycles. "
        "What belongs to the live model, to its parent, and to pinned cycles (with a file PINNED "
        "in their folder) always stays. Reports and lineage are never removed.",
        changes="nothing",
    )
    keep_cycle_days: Optional[PositiveInt] = setting(
        None,
        "Also remove the checkpoints, exports and vocabularies of cycles that are more than "
        "this many days before --as_of.",
        changes="nothing",
    )
    keep_versions: PositiveInt = setting(
        3,
        "Keep this many of the newest versions in --serving_dir, at least 2. Pinned versions stay "
        "too, and versions that another model directory or program made, or that keep.json in this "
        "folder names.",
        changes="nothing",
    )
    stage_limits: tuple[str, ...] = setting(
        (),
        "Seconds that a stage may take, such as train=7200,gate=600. The stages are "
        f"{', '.join(STAGES)}. A stage that takes longer saves what it has and exits with status "
        "75; the same command continues.",
        changes="nothing",
    )
    lock_stale_secs: PositiveFloat = setting(
        120.0,
        "Take over the lock of a process on another machine if it has shown no sign of life "
        "for this many seconds.",
        changes="nothing",
    )
    webhook_url_file: Optional[str] = setting(
        None,
        "A file whose first line is an http(s) address. Each cycle sends its report there as "
        "JSON, by POST. The address is in a file because it is a secret.",
        changes="nothing",
    )
    webhook_timeout_secs: PositiveFloat = setting(
        10.0,
        "Seconds that the webhook may take. If it fails, the cycle only logs a warning.",
        changes="nothing",
    )
    to: Optional[PositiveInt] = setting(
        None,
        "The version in --serving_dir to make live again, as a new version.",
        changes="nothing",
    )
    cycle: Optional[str] = setting(
        None,
        "Train this cycle again with its own flags, such as 0007, and show what differs. Nothing "
        "goes live.",
        changes="nothing",
    )
