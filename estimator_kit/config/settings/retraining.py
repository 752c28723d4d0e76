"""The window of days, the serving directory, what is kept, and who is told."""

from __future__ import annotations

from typing import ClassVar, Optional

from estimator_kit.config.settings.base import PositiveInt, Settings, setting
from feature_specs.entry import PositiveFloat

# The stages of a cycle, in their order.
STAGES = ("window", "vocabularies", "checks", "train", "gate", "promote", "clean")


class RetrainingSettings(Settings):
    """The window of days, the serving directory, what is kept, and who is told."""

    heading: ClassVar[str] = "Scheduled retraining"

    as_of: Optional[str] = setting(
        None,
        "With --mode=retrain: the newest day that may be used, as 2026-01-31; today when not "
        "given.",
    )
    window_days: Optional[PositiveInt] = setting(
        None,
        "With --mode=retrain: train on so many complete days (with _SUCCESS in dt=YYYY-MM-DD), "
        "the last ones up to --as_of before those for evaluation. They take the place of dt=* "
        "in --train_files.",
    )
    eval_window_days: PositiveInt = setting(
        1,
        "With --mode=retrain: the newest complete days, which are for evaluation (of "
        "--eval_files where given, else of --train_files).",
    )
    window_min_days: PositiveInt = setting(
        1,
        "With --mode=retrain: fewer days to train on than this stop the cycle.",
    )
    window_min_rows: PositiveInt = setting(
        1,
        "With --mode=retrain: fewer records to train on than this stop the cycle.",
    )
    window_max_age_days: Optional[PositiveInt] = setting(
        None,
        "With --mode=retrain: no day that is older than so many before --as_of is used.",
    )
    serving_dir: Optional[str] = setting(
        None,
        "With --mode=retrain and rollback: the folder that TensorFlow Serving watches; "
        "model_dir/serving when not given. A model goes live as its highest version.",
    )
    force: bool = setting(
        False,
        "With --mode=retrain: run a cycle even if window, spec, code and flags are those of the "
        "last one.",
    )
    keep_cycles: PositiveInt = setting(
        7,
        "With --mode=retrain: checkpoints, exports and vocabularies of so many of the newest "
        "cycles are kept, beside those of what is live, its parent, and what is pinned (a file "
        "PINNED in the cycle's folder). Reports and lineage are always kept.",
    )
    keep_cycle_days: Optional[PositiveInt] = setting(
        None,
        "With --mode=retrain: and of no cycle that is older than so many days, by --as_of.",
    )
    keep_versions: PositiveInt = setting(
        3,
        "With --mode=retrain: so many of the newest versions stay in --serving_dir, 2 at least, "
        "beside those that are pinned.",
    )
    stage_limits: tuple[str, ...] = setting(
        (),
        "With --mode=retrain: seconds that a stage may take, as train=7200,gate=600, of "
        f"{', '.join(STAGES)}. One that takes longer saves what it has and ends with exit status "
        "75; the same command goes on.",
    )
    lock_stale_secs: PositiveFloat = setting(
        120.0,
        "With --mode=retrain: the lock of a process on another machine is taken over when "
        "nothing was heard of it for so long.",
    )
    prometheus_file: Optional[str] = setting(
        None,
        "With --mode=retrain: a file for the textfile collector of Prometheus, as "
        "/var/lib/node_exporter/ads.prom, renewed at the end of each cycle.",
    )
    webhook_url_file: Optional[str] = setting(
        None,
        "With --mode=retrain: a file whose first line is an http(s) address that gets the "
        "report of each cycle, as JSON, by POST. In a file because such addresses are secrets.",
    )
    webhook_timeout_secs: PositiveFloat = setting(
        10.0,
        "Seconds that it may take; a webhook that fails is a warning and changes nothing else.",
    )
    to: Optional[PositiveInt] = setting(
        None,
        "With --mode=rollback: the version in --serving_dir that becomes live again, as a new "
        "version.",
    )
    cycle: Optional[str] = setting(
        None,
        "With --mode=reproduce: the cycle that is trained again, as 0007.",
    )
