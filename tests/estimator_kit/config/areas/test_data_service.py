"""Flags that do not go with --data_service, and their messages."""

from __future__ import annotations

import json

import pytest

import estimator_kit as ek
from estimator_kit.config.modes import command_of
from estimator_kit.training.source import TrainingInput
from feature_specs.parser import parser

TRAINING = {
    "spec": "spec.yaml", "model_dir": "run", "train_files": ("a",), "eval_files": ("b",),
    "epochs": 1, "data_service": "grpc://host:5000",
}  # fmt: skip
NOT = "does not go with --data_service"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"data_service": "host:5000"},
            "--data_service: expected the address of a dispatcher, such as grpc://host:5000, got "
            "'host:5000'.",
        ),
        (
            {"data_service": "grpc://host:65536"},
            "--data_service: expected the address of a dispatcher, such as grpc://host:5000, got "
            "'grpc://host:65536'.",
        ),
        (
            {"deterministic": True},
            f"--deterministic {NOT}, because its workers read the files in a different order each "
            "time. Remove one of the two.",
        ),
        (
            {"shuffle": False},
            f"--noshuffle {NOT}, because its workers read the files in no fixed order. Remove one "
            "of the two.",
        ),
        (
            {"input_cache_dir": "cache"},
            f"--input_cache_dir {NOT}, because the workers transform the rows and keep none. "
            "Remove one of the two.",
        ),
        (
            {"train_mix": ("a=1", "b=1"), "train_files": ()},
            f"--train_mix {NOT}, because one process must read all parts of a mix to keep their "
            "shares. Use --train_files, or remove --data_service.",
        ),
        (
            {"corrupt_data_policy": "skip_record"},
            f"--corrupt_data_policy=skip_record {NOT}: only Python code can read damaged files, "
            "and the workers do not run it. Use quarantine, which leaves such files out.",
        ),
        (
            {"mode": "data_service", "data_service_dir": "state"},
            "--data_service_dir is the state of a dispatcher, but --data_service makes this "
            "process a worker. Remove one of the two.",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused(changes, message):
    with pytest.raises(ek.ConfigError) as error:
        ek.ExperimentConfig(**{**TRAINING, **changes})
    assert str(error.value) == message


def test_it_goes_with_the_rest():
    ek.ExperimentConfig(**TRAINING, corrupt_data_policy="quarantine", keep_negatives="0.5")
    ek.ExperimentConfig(**TRAINING | {"data_service": "grpc://[::1]:5000"})
    ek.ExperimentConfig(mode="data_service")
    ek.ExperimentConfig(mode="data_service", data_service="grpc://host:5000")


def test_rows_to_rank_are_refused(document, tmp_path):
    document["objectives"] = {"click": {"head": "ranking", "group_by": "user"}}
    document["labels"] = {"click": {"dtype": "int64"}}
    (tmp_path / "spec.yaml").write_text(json.dumps(document))
    spec = parser.load(str(tmp_path / "spec.yaml"))
    with pytest.raises(ek.ConfigError) as error:
        TrainingInput.of(command_of(ek.ExperimentConfig(**TRAINING)), spec)
    assert str(error.value) == (
        "--data_service does not go with the head ranking, which needs all rows of one 'user' in "
        "one batch: the last batches of the workers are joined and cut again, row by row. Remove "
        "--data_service."
    )
