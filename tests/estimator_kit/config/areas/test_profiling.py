"""`--profile`."""

from __future__ import annotations

import pytest

from estimator_kit.config import step_range
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.errors import ConfigError

pytestmark = pytest.mark.no_tensorflow

TRAINING = {
    "mode": "train", "spec": "spec.yaml", "model_dir": "run", "train_files": ("a",), "epochs": 1,
}  # fmt: skip


def test_a_range_has_both_ends():
    assert list(step_range.parse("3..5")) == [3, 4, 5]
    assert list(step_range.parse(" 7..7 ")) == [7]
    assert step_range.parse("auto") == range(11, 111)


def test_a_profile_may_end_after_the_training():
    ExperimentConfig(**TRAINING, profile="100..200", max_steps=100)
    ExperimentConfig(**TRAINING, profile="auto", max_steps=5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"profile": "100"},
            "--profile: expected a first and a last step, such as 100..200, or auto, got '100'.",
        ),
        (
            {"profile": "5..4"},
            "--profile: expected a first step of at least 1 and a last step that is not before it, "
            "got '5..4'.",
        ),
        (
            {"profile": "0..4"},
            "--profile: expected a first step of at least 1 and a last step that is not before it, "
            "got '0..4'.",
        ),
        (
            {"profile": "1..5000"},
            "--profile: expected at most 1,000 steps, got 5,000 ('1..5000').",
        ),
        (
            {"profile": "100..200", "max_steps": 99},
            "--profile: expected a first step of at most --max_steps=99, got '100..200'. Choose "
            "earlier steps, or raise --max_steps.",
        ),
        (
            {"profile": "1..5", "strategy": "mirrored"},
            "--profile does not go with --strategy=mirrored. Profile a run in one process, which "
            "reads its input in the same way.",
        ),
    ],
)
def test_what_does_not_go_together(changes, message):
    with pytest.raises(ConfigError) as error:
        ExperimentConfig(**TRAINING, **changes)
    assert str(error.value) == message
