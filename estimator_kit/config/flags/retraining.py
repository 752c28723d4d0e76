"""The flags of scheduled retraining: window, serving directory, what is kept, who is told."""

from __future__ import annotations

from estimator_kit.config.flags.definer import Definer
from estimator_kit.config.retraining_rules import STAGES
from estimator_kit.exit_codes import STYLES


def define_flags(define: Definer) -> None:
    define.text(
        "as_of",
        "With --mode=retrain: the newest day that may be used, as 2026-01-31; today when not "
        "given.",
    )
    define.integer(
        "window_days",
        "With --mode=retrain: train on so many complete days (with _SUCCESS in dt=YYYY-MM-DD), the "
        "last ones up to --as_of before those for evaluation. They take the place of dt=* in "
        "--train_files.",
    )
    define.integer(
        "eval_window_days",
        "With --mode=retrain: the newest complete days, which are for evaluation (of --eval_files "
        "where given, else of --train_files).",
    )
    define.integer(
        "window_min_days",
        "With --mode=retrain: fewer days to train on than this stop the cycle.",
    )
    define.integer(
        "window_min_rows",
        "With --mode=retrain: fewer records to train on than this stop the cycle.",
    )
    define.integer(
        "window_max_age_days",
        "With --mode=retrain: no day that is older than so many before --as_of is used.",
    )
    define.text(
        "serving_dir",
        "With --mode=retrain and rollback: the folder that TensorFlow Serving watches; "
        "model_dir/serving when not given. A model goes live as its highest version.",
    )
    define.switch(
        "force",
        "With --mode=retrain: run a cycle even if window, spec, code and flags are those of the "
        "last one.",
    )
    define.integer(
        "keep_cycles",
        "With --mode=retrain: checkpoints, exports and vocabularies of so many of the newest "
        "cycles are kept, beside those of what is live, its parent, and what is pinned (a file "
        "PINNED in the cycle's folder). Reports and lineage are always kept.",
    )
    define.integer(
        "keep_cycle_days",
        "With --mode=retrain: and of no cycle that is older than so many days, by --as_of.",
    )
    define.integer(
        "keep_versions",
        "With --mode=retrain: so many of the newest versions stay in --serving_dir, 2 at least, "
        "beside those that are pinned.",
    )
    define.listing(
        "stage_limits",
        "With --mode=retrain: seconds that a stage may take, as train=7200,gate=600, of "
        f"{', '.join(STAGES)}. One that takes longer saves what it has and ends with exit status "
        "75; the same command goes on.",
    )
    define.number(
        "lock_stale_secs",
        "With --mode=retrain: the lock of a process on another machine is taken over when nothing "
        "was heard of it for so long.",
    )
    define.text(
        "prometheus_file",
        "With --mode=retrain: a file for the textfile collector of Prometheus, as "
        "/var/lib/node_exporter/ads.prom, renewed at the end of each cycle.",
    )
    define.text(
        "webhook_url_file",
        "With --mode=retrain: a file whose first line is an http(s) address that gets the report "
        "of each cycle, as JSON, by POST. In a file because such addresses are secrets.",
    )
    define.number(
        "webhook_timeout_secs",
        "Seconds that it may take; a webhook that fails is a warning and changes nothing else.",
    )
    define.choice(
        "exit_code_style",
        STYLES,
        "kubernetes: exit 0 in the place of 99 (nothing to do), which a Job takes for a failure.",
    )
    define.integer(
        "to",
        "With --mode=rollback: the version in --serving_dir that becomes live again, as a new "
        "version.",
    )
    define.text(
        "cycle",
        "With --mode=reproduce: the cycle that is trained again, as 0007.",
    )
