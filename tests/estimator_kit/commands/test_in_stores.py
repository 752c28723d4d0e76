"""Which settings may name a place in a store, and where that is refused."""

from __future__ import annotations

import re

import pytest

import estimator_kit as ek
from estimator_kit.commands import in_stores
from estimator_kit.config.areas import AllSettings
from estimator_kit.config.areas.base import in_store_of

pytestmark = pytest.mark.no_tensorflow

# Settings with the name of a path that must be on this machine, and why.
LOCAL = {
    "copies_dir": "the copies themselves",
    "data_service_dir": "the dispatcher's own files",
    "input_cache_dir": "a cache on a near disk",
    "prometheus_file": "another program of this machine reads it",
    "serving_log_dir": "files that the server of this machine appends to",
    "serving_config_dir": "the server of this machine reads it",
    "webhook_url_file": "a secret",
}


def test_each_setting_that_names_a_path_says_whether_it_may_be_in_a_store():
    named = {
        name
        for name in AllSettings.model_fields
        if re.search("_(dir|file|files|from|logs)$", name)
        or name in ("spec", "train_mix", "baseline")
    }
    declared = {name for name in AllSettings.model_fields if in_store_of(AllSettings, name)}
    assert declared == named - {*LOCAL}


def test_a_config_without_a_url_stays_the_same():
    config = ek.ExperimentConfig(
        mode="train", spec="a.yaml", train_files=("x=y",), model_dir="m", max_steps=1
    )
    with in_stores.copied(config) as local:
        assert local is config


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"mode": "train", "spec": "a.yaml", "train_files": ("t",), "model_dir": "m",
             "max_steps": 1, "input_cache_dir": "s3://ads/cache"},
            "--input_cache_dir: got 's3://ads/cache', expected a local path, not one in a store",
        ),
        (
            {"mode": "serve", "serving_models": ("ads=gs://ads/export",)},
            "--mode=serve does not read stores, got --serving_models. Copy the files, or mount the "
            "store.",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(fields, message):
    config = ek.ExperimentConfig(**fields)
    with pytest.raises(ek.ConfigError) as error, in_stores.copied(config):
        pass
    assert str(error.value) == message


def test_tasks_of_a_cluster_leave_folders_to_tensorflow(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, '
                       '"task": {"type": "chief", "index": 0}}')  # fmt: skip
    config = ek.ExperimentConfig(
        mode="train", spec="a.yaml", train_files=("t",), model_dir="gs://ads/runs", max_steps=1,
        strategy="parameter_server",
    )  # fmt: skip
    with in_stores.copied(config) as local:
        assert local is config


@pytest.mark.parametrize(
    ("value", "meant"),
    [("s3:/ads/a", "s3://ads/a"), ("s3//ads/a", "s3://ads/a"), ("gs:/ads", "gs://ads")],
)
def test_almost_a_url_is_refused(value, meant):
    config = ek.ExperimentConfig(
        mode="train", spec="a.yaml", train_files=("t",), model_dir=value, max_steps=1
    )
    with pytest.raises(ek.ConfigError) as error, in_stores.copied(config):
        pass
    assert str(error.value) == (
        f"--model_dir: got {value!r}, expected a path or a URL. Did you mean {meant}?"
    )


def test_the_files_of_a_spec_are_those_that_it_names():
    document = {
        "columns": {
            "a": {"vocabulary": "a", "file": "words/a.txt"},
            "b": {"embedding": "a", "pretrained": {"checkpoint": "old/model.ckpt-1"}},
            "c": {"numeric": "c", "normalizer": [{"zscore": {"statistics": "numbers.json"}}]},
        },
        "labels": {"y": {"vocabulary": "words/y.txt"}, "z": {"vocabulary": ["a", "b"]}},
    }
    found = set(in_stores._files_in(document))
    assert {"words/a.txt", "old/model.ckpt-1", "numbers.json", "words/y.txt"} <= found
