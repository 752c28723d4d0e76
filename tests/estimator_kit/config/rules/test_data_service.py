"""Flags that do not go with --data_service, and what is said of them."""

from __future__ import annotations

import json

import pytest

import estimator_kit as ek
from estimator_kit.training.source import TrainingInput
from feature_specs.parser import parser

TRAINING = {
    "spec": "spec.yaml", "model_dir": "run", "train_files": ("a",), "eval_files": ("b",),
    "epochs": 1, "data_service": "grpc://host:5000",
}  # fmt: skip
COME = "the workers of --data_service take files as they come"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"data_service": "host:5000"},
            "--data_service: got 'host:5000', expected the address of a dispatcher, as "
            "grpc://host:5000",
        ),
        (
            {"data_service": "grpc://host:65536"},
            "--data_service: got 'grpc://host:65536', expected the address of a dispatcher, as "
            "grpc://host:5000",
        ),
        (
            {"deterministic": True},
            f"--deterministic: {COME}, in another order each time; drop one of the two",
        ),
        (
            {"shuffle": False},
            f"--noshuffle: {COME}, in no order that could be kept; drop one of the two",
        ),
        (
            {"train_mix": ("a=1", "b=1"), "train_files": ()},
            f"--train_mix: {COME}, and the shares of a mix are kept by one process that reads all "
            "its parts; give --train_files, or drop --data_service",
        ),
        (
            {"corrupt_data_policy": "skip_record"},
            "--corrupt_data_policy=skip_record: damaged files are read by Python, which the "
            "workers of --data_service do not run; use quarantine, which leaves such files out",
        ),
        (
            {"mode": "data_service_worker", "data_service": None},
            "--data_service is missing; --mode=data_service_worker needs the address of its "
            "dispatcher, as grpc://host:5000",
        ),
        (
            {"mode": "data_service_worker", "data_service_dir": "folder"},
            "--data_service_dir is for --mode=data_service_dispatcher; a worker keeps nothing",
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
    ek.ExperimentConfig(mode="data_service_dispatcher")
    ek.ExperimentConfig(mode="data_service_worker", data_service="grpc://host:5000")


def test_rows_to_rank_are_refused(document, tmp_path):
    document["objectives"] = {"click": {"head": "ranking", "group_by": "user"}}
    document["labels"] = {"click": {"dtype": "int64"}}
    (tmp_path / "spec.yaml").write_text(json.dumps(document))
    spec = parser.load(str(tmp_path / "spec.yaml"))
    with pytest.raises(ek.ConfigError) as error:
        TrainingInput.of(ek.ExperimentConfig(**TRAINING), spec)
    assert str(error.value) == (
        "--data_service: the head ranking learns from rows of one 'user' together, and the last "
        "batches of the workers are cut anew, row by row; train without it"
    )
