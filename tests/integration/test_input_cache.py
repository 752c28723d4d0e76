"""`--input_cache_dir` in runs: the same model with less work, and repair of damaged files."""

from __future__ import annotations

import glob
import json
import os

import numpy as np
import pytest

import estimator_kit as ek
from estimator_kit.training import input_cache
from input_pipelines.record_files import writing
from tests.conftest import make_rows, small_run, variables

TRAINED = make_rows(400)


@pytest.fixture
def ads(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for i in range(4):
        writing.write_examples(f"{folder}/day-{i}.tfrecord", TRAINED[i * 100 : (i + 1) * 100])
    writing.write_examples(f"{folder}/eval.tfrecord", make_rows(200, seed=9))
    return folder


@pytest.fixture
def config(ads, document, tmp_path):
    (tmp_path / "spec.json").write_text(json.dumps(document))

    return small_run(
        ads, tmp_path / "model", mode="train", spec=f"{tmp_path}/spec.json", model="linear",
        train_files=(f"{ads}/day-*",), epochs=2, input_cache_dir=f"{tmp_path}/cache",
    )  # fmt: skip


def found(result):
    counts = result.input_cache
    return counts["hits"], counts["misses"], counts["rows"]


@pytest.mark.nightly
def test_a_sliding_window_transforms_the_new_day_alone(config, ads, tmp_path):
    days = [f"{ads}/day-{i}.tfrecord" for i in range(4)]
    first = ek.run(config(mode="train_and_evaluate", train_files=tuple(days[:3])))
    assert found(first) == (0, 4, 500)
    second = ek.run(config(train_files=tuple(days[1:]), model_dir=f"{tmp_path}/second"))
    assert found(second) == (2, 1, 100)
    without = ek.run(
        config(train_files=tuple(days[1:]), model_dir=f"{tmp_path}/third", input_cache_dir="off")
    )
    assert without.input_cache == {}
    assert second.global_step == without.global_step
    ours = variables(tmp_path / "second")
    for name, value in variables(tmp_path / "third").items():
        np.testing.assert_array_equal(ours[name], value, err_msg=name)
    evaluated = config(mode="evaluate")
    assert found(ek.run(evaluated)) == (1, 0, 0)
    metrics = [
        ek.run(evaluated.model_copy(update={"input_cache_dir": folder})).metrics["loss"]
        for folder in (evaluated.input_cache_dir, "off")
    ]
    assert metrics[0] == pytest.approx(metrics[1], rel=1e-6)


@pytest.mark.nightly
def test_a_bad_record_is_named_as_without_the_cache(config, ads, tmp_path):
    path = f"{ads}/day-2.tfrecord"
    rows = [dict(row) for row in TRAINED[200:300]]
    rows[7]["price"] = float("nan")
    writing.write_examples(path, rows)
    messages = []
    for folder in (f"{tmp_path}/cache", "off"):
        with pytest.raises(ek.DataError) as error:
            ek.run(config(input_cache_dir=folder))
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert "record 7" in messages[0] and "price" in messages[0]
    # After the repair, the run continues with the existing files.
    writing.write_examples(path, TRAINED[200:300])
    assert ek.run(config()).status == "done"


@pytest.mark.nightly  # row_cache/test_batches.py damages one.
def test_a_damaged_cache_is_made_anew(config, tmp_path):
    ek.run(config(max_steps=3))
    entry = next(name for name in os.listdir(tmp_path / "cache") if name.endswith(".rows"))
    with open(tmp_path / "cache" / entry, "r+b") as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 1]))
    result = ek.run(config())
    assert found(result) == (3, 1, 100)
    assert result.rows_trained == 800 - 150


@pytest.mark.ci
def test_without_the_flag_rows_are_kept_in_the_cache_of_the_user(config, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/user")
    few = ek.run(config(input_cache_dir=None, model_dir=f"{tmp_path}/few"))
    assert few.input_cache == {} and not os.path.exists(f"{tmp_path}/user")
    monkeypatch.setattr(input_cache, "FEW_ROWS", 800)
    results = [
        ek.run(
            config(input_cache_dir=folder, input_cache_gib=limit, model_dir=f"{tmp_path}/{name}")
        )
        for name, folder, limit in (("cold", None, 1), ("warm", None, 1), ("without", "off", None))
    ]
    assert [found(result) for result in results[:2]] == [(0, 4, 400), (4, 0, 0)]
    assert results[2].input_cache == {}
    assert len(glob.glob(f"{tmp_path}/user/estimator_kit/rows/*.rows")) == 4
    assert os.stat(f"{tmp_path}/user/estimator_kit/rows").st_mode & 0o077 == 0
    cold, warm, without = (variables(tmp_path / name) for name in ("cold", "warm", "without"))
    for name, value in cold.items():
        np.testing.assert_array_equal(warm[name], value, err_msg=name)
        np.testing.assert_array_equal(without[name], value, err_msg=name)


@pytest.mark.parametrize("setting", [
    {"keep_negatives": "click=0.5"},
    {"train_files": (), "train_mix": ("DATA/day-*=1",)},
])  # fmt: skip
def test_without_the_flag_rows_that_cannot_be_kept_are_read_as_before(config, ads, setting):
    setting = {k: tuple(t.replace("DATA", str(ads)) for t in v) if isinstance(v, tuple) else v
               for k, v in setting.items()}  # fmt: skip
    result = ek.run(config(input_cache_dir=None, max_steps=2, epochs=None, **setting))
    assert result.input_cache == {}


def test_a_home_that_cannot_be_written_is_no_problem(config, tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/file")
    monkeypatch.setattr(input_cache, "FEW_ROWS", 800)
    caplog.set_level("INFO", "estimator_kit")
    assert ek.run(config(input_cache_dir=None)).input_cache == {}
    assert f"transformed rows are not kept: [Errno 20] Not a directory: '{tmp_path}" in caplog.text


def test_what_cannot_be_cached_is_refused(config):
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config(keep_negatives="click=0.5"))
    assert str(error.value) == (
        "--input_cache_dir: each epoch keeps different negatives (--keep_negatives). Remove "
        "--input_cache_dir."
    )
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config(input_cache_dir="gs://bucket/cache"))
    assert str(error.value) == (
        "--input_cache_dir: got 'gs://bucket/cache', expected a local path, not one in a store"
    )
    spec = config().spec
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config(input_cache_dir=spec))
    assert str(error.value) == (
        f"--input_cache_dir: the input cache {spec}: {spec}: File exists. Name a writable folder "
        "on a local disk"
    )
    assert not os.path.exists(config().model_dir)
    with pytest.raises(ek.ConfigError, match="--input_cache_gib"):
        config(input_cache_gib=0)
