"""Flags that do not go with retraining, and what is said of them."""

from __future__ import annotations

import pytest

import estimator_kit as ek
from estimator_kit import exit_codes
from estimator_kit.config.rules.retraining import stage_limits

pytestmark = pytest.mark.no_tensorflow

RETRAIN = {
    "mode": "retrain", "spec": "s", "model_dir": "m", "train_files": ("d/dt=*/*.tfrecord",),
    "window_days": 5, "epochs": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"window_days": None}, "--window_days is missing; --mode=retrain needs it"),
        ({"epochs": None}, "give --max_steps or --epochs, to say when training ends"),
        ({"window_min_days": 6}, "--window_min_days=6 is more than --window_days=5"),
        ({"as_of": "today"}, "--as_of: got 'today', expected a day, as 2026-01-31"),
        (
            {"train_files": ("d/*",)},
            "--train_files, with --mode=retrain: 'd/*' has 0 parts dt=*, expected one, as in "
            "data/dt=*/*.tfrecord. Each day replaces the star",
        ),
        (
            {"warm_start_from": "x"},
            "--warm_start_from does not go with --mode=retrain: the section retraining of the "
            "spec says where a cycle starts",
        ),
        (
            {"model_dir": "gs://bucket/model"},
            "--model_dir: got 'gs://bucket/model', expected a local or mounted folder: locks and "
            "renames, on which retraining rests, are not to be had elsewhere",
        ),
        (
            {"keep_versions": 1},
            "--keep_versions: got 1, expected 2 or more: a server may still be loading the version "
            "before the newest",
        ),
        (
            {"stage_limits": ("train=x",)},
            "--stage_limits: got 'train=x', expected stage=seconds, as train=7200",
        ),
        (
            {"stage_limits": ("trian=5",)},
            "--stage_limits: no stage 'trian'. Did you mean 'train'?",
        ),
        (
            {"stage_limits": ("train=0.0",)},
            "--stage_limits: got 'train=0.0', expected more than 0 seconds; without an entry a "
            "stage has no limit",
        ),
        (
            {"mode": "rollback"},
            "--to is missing; --mode=rollback needs the version that becomes live again",
        ),
        (
            {"mode": "reproduce"},
            "--cycle is missing; --mode=reproduce needs the cycle, as 0007",
        ),
    ],
)
def test_what_does_not_go_together(changes, problem):
    with pytest.raises(ek.ConfigError) as error:
        ek.ExperimentConfig(**{**RETRAIN, **changes})
    assert str(error.value) == problem


def test_limits_by_stage():
    config = ek.ExperimentConfig(**RETRAIN, stage_limits=("train=7200", "gate=0.5"))
    assert stage_limits(config) == {"train": 7200.0, "gate": 0.5}


@pytest.mark.parametrize(
    ("code", "style", "expected"),
    [(99, "kit", 99), (99, "kubernetes", 0), (77, "kubernetes", 77), (75, "kubernetes", 75)],
)
def test_exit_statuses_for_kubernetes(code, style, expected):
    assert exit_codes.styled(code, style) == expected
