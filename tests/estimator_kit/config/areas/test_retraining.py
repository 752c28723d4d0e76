"""Flags that do not go with retraining, and their messages."""

from __future__ import annotations

import pytest

import estimator_kit as ek
from estimator_kit import exit_codes
from estimator_kit.config.areas.retraining import stage_limits

pytestmark = pytest.mark.no_tensorflow

RETRAIN = {
    "mode": "retrain", "spec": "s", "model_dir": "m", "train_files": ("d/dt=*/*.tfrecord",),
    "window_days": 5, "epochs": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"window_days": None},
            "--window_days is missing. --mode=retrain needs the number of days to train on "
            "unless you give --cycle.",
        ),
        (
            {"epochs": None},
            "--max_steps and --epochs are missing. Give at least one of them, so that training "
            "ends. Only --mode=train_and_evaluate with --train_files and --eval_files needs "
            "neither: it trains until --best_metric stops improving.",
        ),
        ({"window_min_days": 6}, "--window_min_days: expected at most --window_days=5, got 6."),
        ({"as_of": "today"}, "--as_of: expected a day such as 2026-01-31, got 'today'."),
        (
            {"train_files": ("d/*",)},
            "--train_files, with --mode=retrain: 'd/*' has 0 parts dt=*, expected one, as in "
            "data/dt=*/*.tfrecord. Each day replaces the star",
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
            "--to is missing. --mode=rollback needs the version to make live again.",
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
