"""Flags that do not go with retraining, and their messages."""

from __future__ import annotations

import pytest

import estimator_kit as ek
from estimator_kit import exit_codes
from estimator_kit.config.areas.retraining import stage_limits

pytestmark = pytest.mark.no_tensorflow

RETRAIN = {
    "mode": "retrain", "spec": "s", "model_dir": "m", "train_files": ("d/dt=*/*.tfrecord",),
    "window": "5d", "epochs": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"window": None},
            "--window is missing. --mode=retrain needs the time to train on, such as 7d, "
            "unless you give --cycle.",
        ),
        (
            {"epochs": None},
            "--max_steps and --epochs are missing. Give at least one of them, so that training "
            "ends. Only --mode=train_and_evaluate with --train_files and --eval_files needs "
            "neither: it trains until --best_metric stops improving.",
        ),
        ({"window_min": ("6d",)}, "--window_min: expected at most --window=5d, got 6d."),
        (
            {"window": "0d"},
            "--window: expected minutes, hours or days such as 30m, 6h or 7d, got '0d'.",
        ),
        (
            {"eval_window": "12h"},
            "--eval_window: expected a multiple of 1d, the length of a period "
            "(--period), got '12h'.",
        ),
        ({"window_min": ("1000",)}, "--window_min: expected at most --window=5d, got 1000."),
        (
            {"window_min": ("9row",)},
            "--window_min: expected minutes, hours or days such as 30m, 6h "
            "or 7d, got '9row', or records such as 1000rows.",
        ),
        (
            {"window_min": ("1d", "2d")},
            "--window_min: expected at most one number of periods and one of rows, got 1d,2d.",
        ),
        (
            {"window_max_age": "1w"},
            "--window_max_age: expected minutes, hours or days such as 30m, 6h or 7d, got '1w'.",
        ),
        (
            {"period": "7m"},
            "--period: expected a length that divides a day, such as 1d, 1h or 5m, got '7m'.",
        ),
        (
            {"period": "5m", "train_files": ("d/ts=*/*",), "as_of": "13:30"},
            "--as_of: expected a day such as 2026-01-31 or a time "
            "such as 2026-01-31T13-30, got '13:30'.",
        ),
        ({"as_of": "today"}, "--as_of: expected a day such as 2026-01-31, got 'today'."),
        (
            {"train_files": ("d/*",)},
            "--train_files, with --mode=retrain: 'd/*' has 0 parts dt=*, expected one, as in "
            "data/dt=*/*.tfrecord. Each day replaces the star. For other periods, set --period",
        ),
        (
            {"warm_start_from": "x"},
            "--warm_start_from does not go with --mode=retrain. The section retraining of the spec "
            "says where a cycle starts. Remove the flag.",
        ),
        (
            {"model_dir": "ram://bucket/model"},
            "--model_dir: expected a local or mounted folder, got 'ram://bucket/model'. Retraining "
            "needs locks and atomic renames, which other file systems do not have.",
        ),
        (
            {"keep_versions": 1},
            "--keep_versions: expected at least 2, because a server may still be loading the "
            "version before the newest, got 1.",
        ),
        (
            {"stage_limits": ("train=x",)},
            "--stage_limits: expected stage=seconds, such as train=7200, got 'train=x'.",
        ),
        (
            {"stage_limits": ("trian=5",)},
            "--stage_limits: unknown stage 'trian'. Did you mean 'train'?",
        ),
        (
            {"stage_limits": ("train=0.0",)},
            "--stage_limits: expected more than 0 seconds, got 'train=0.0'. Leave the stage out if "
            "it has no limit.",
        ),
        (
            {"mode": "rollback"},
            "--to is missing. --mode=rollback needs the version to make live.",
        ),
    ],
)
def test_what_does_not_go_together(changes, problem):
    with pytest.raises(ek.ConfigError) as error:
        ek.ExperimentConfig(**{**RETRAIN, **changes})
    assert str(error.value) == problem


def test_a_cycle_that_is_trained_again_needs_only_its_folder():
    ek.ExperimentConfig(mode="retrain", model_dir="m", cycle="0007")
    with pytest.raises(ek.ConfigError, match=r"^--spec is missing\..* unless you give --cycle\."):
        ek.ExperimentConfig(mode="retrain", model_dir="m")


def test_limits_by_stage():
    config = ek.ExperimentConfig(**RETRAIN, stage_limits=("train=7200", "gate=0.5"))
    assert stage_limits(config) == {"train": 7200.0, "gate": 0.5}


@pytest.mark.parametrize(
    ("code", "style", "expected"),
    [(99, "kit", 99), (99, "kubernetes", 0), (77, "kubernetes", 77), (75, "kubernetes", 75)],
)
def test_exit_statuses_for_kubernetes(code, style, expected):
    assert exit_codes.styled(code, style) == expected
