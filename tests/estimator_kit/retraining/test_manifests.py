"""A day is compared with the manifest of its conversion."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

from estimator_kit.retraining.facts import FileFacts, manifest_problem

SHARDS = [{"name": f"train-{i}.tfrecord", "bytes": 30, "rows": 3, "crc32": 7} for i in range(2)]


def write(folder, shards):
    tf.io.gfile.makedirs(folder)
    with tf.io.gfile.GFile(f"{folder}/_MANIFEST.json", "w") as file:
        file.write(json.dumps({"shards": shards}))


def facts(folder, *names, rows=3):
    return [FileFacts(path=f"{folder}/{n}", bytes=30, sha256="", rows=rows) for n in names]


@pytest.fixture(params=["", "ram://"])
def folder(request, tmp_path):
    """A folder on a disk, and a folder on a file system with a scheme."""
    return f"{request.param}{tmp_path}/dt=2026-01-01"


def test_a_day_that_is_what_its_manifest_says(folder):
    both = facts(folder, "train-0.tfrecord", "train-1.tfrecord")
    assert manifest_problem(folder, both) is None
    write(folder, SHARDS)
    assert manifest_problem(folder, both) is None
    assert manifest_problem(f"{folder}/", both, "*.tfrecord") is None
    # Files of another folder belong to another manifest.
    elsewhere = facts(f"{folder}/part", "train-7.tfrecord")
    assert manifest_problem(folder, [*both, *elsewhere]) is None


def test_a_shard_that_is_lost_is_noticed(folder):
    evaluate = {"name": "eval-0.tfrecord", "bytes": 30, "rows": 3, "crc32": 7}
    write(folder, [*SHARDS, evaluate])
    first = facts(folder, "train-0.tfrecord")
    assert manifest_problem(folder, first, "train-*.tfrecord") == (
        f"{folder}/train-1.tfrecord is in the manifest of its period, but does not exist"
    )
    both = facts(folder, "train-0.tfrecord", "train-1.tfrecord")
    assert manifest_problem(folder, both, "train-*.tfrecord") is None


def test_what_a_manifest_does_not_have_or_has_otherwise(folder):
    write(folder, SHARDS[:1])
    both = facts(folder, "train-0.tfrecord", "train-1.tfrecord")
    assert manifest_problem(folder, both) == (
        f"{folder}/train-1.tfrecord is not in the manifest of its period"
    )
    assert manifest_problem(folder, facts(folder, "train-0.tfrecord", rows=2)) == (
        f"{folder}/train-0.tfrecord has 2 records in 30 bytes, but the manifest of its period says "
        "3 records in 30 bytes"
    )


@pytest.mark.parametrize("key", ["bytes", "rows"])
def test_a_shard_without_a_number_makes_it_no_manifest(folder, key):
    write(folder, [{k: v for k, v in SHARDS[0].items() if k != key}])
    assert manifest_problem(folder, facts(folder, "train-0.tfrecord")) == (
        f"{folder}/_MANIFEST.json: shards[0].{key} is missing. Repair or remove it."
    )


@pytest.mark.parametrize("shards", [None, [1], [[]], [{}], {"a": 1}])
def test_what_is_no_manifest(folder, shards):
    write(folder, shards)
    assert manifest_problem(folder, []).startswith(f"{folder}/_MANIFEST.json: shards")
