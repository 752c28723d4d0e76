"""A training, an export and predictions on real servers of S3 and GCS, compared with local ones."""

from __future__ import annotations

import collections
import math
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("obstore")

import estimator_kit as ek
from estimator_kit.errors import NothingToDo
from estimator_kit.result import RunResult
from feature_specs.files import stores
from tests.conftest import ROOT
from tests.stores import servers

pytestmark = pytest.mark.ci

OPTIONS = {"model": "linear", "batch_size": 50, "deterministic": True, "save_checkpoints_steps": 2}


@pytest.fixture(params=["s3", "gs", pytest.param("az", marks=pytest.mark.nightly)])
def bucket(request, tmp_path, monkeypatch):
    """(The URL of the bucket, the proxy before its server)"""
    with servers.started(request.param, str(tmp_path)) as (proxy, variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        stores._store.cache_clear()
        yield f"{request.param}://{servers.BUCKET}", proxy
    stores._store.cache_clear()


def test_of_two_starts_one_trains_and_the_other_may_be_tried_again(ads, tmp_path, bucket):
    url, _ = bucket
    command = [
        sys.executable, str(ROOT / "run.py"), "--mode=train", f"--spec={ads}/spec.yaml",
        f"--train_files={ads}/train-*", f"--model_dir={url}/run", "--model=linear", "--max_steps=3",
        "--batch_size=50",
    ]  # fmt: skip
    starts = [
        subprocess.Popen([*command, f"--copies_dir={tmp_path}/{i}"], stderr=subprocess.PIPE)
        for i in range(2)
    ]
    said = [start.communicate()[1].decode() for start in starts]
    statuses = [start.returncode for start in starts]
    # If the first one has ended before the second one begins, nothing is left to do.
    assert sorted(statuses) in ([0, 75], [0, 99]), said
    store, key = stores.find(f"{url}/run")
    assert b"model.ckpt-3" in store.read(f"{key}/checkpoint")[0]
    if 75 in statuses:
        assert f"{url}/run is locked by " in said[statuses.index(75)]


def test_it_goes_on_elsewhere_and_ends_as_a_local_run(ads, tmp_path, bucket):
    url, proxy = bucket
    data = {}
    for path in [ads / "spec.yaml", *ads.glob("*.tfrecord*")]:
        data[path.name] = path.read_bytes()
        store, key = stores.find(f"{url}/data/{path.name}")
        store.put(key, str(path))

    def run(place, model_dir, mode="train_and_evaluate", **changes):
        fields = {
            "spec": f"{place}/spec.yaml", "train_files": (f"{place}/train-*",),
            "eval_files": (f"{place}/eval*",), "model_dir": model_dir, **OPTIONS, **changes,
        }  # fmt: skip
        return ek.run(ek.ExperimentConfig(mode=mode, **fields))

    expected = run(str(ads), str(tmp_path / "local"), max_steps=6)
    proxy.seen.clear()
    first, second = (str(tmp_path / name) for name in ("first", "second"))
    run(f"{url}/data", f"{url}/run", max_steps=4, copies_dir=first)
    gets = collections.Counter(each.path for each in proxy.of("GET") if "/data/" in each.path)
    assert len(gets) >= 3 and set(gets.values()) == {1}  # One GET a file.
    # Another machine has no copies yet.
    found = run(f"{url}/data", f"{url}/run", max_steps=6, copies_dir=second)
    assert found.metrics == pytest.approx(expected.metrics, rel=1e-6, nan_ok=True)
    with pytest.raises(NothingToDo):
        run(f"{url}/data", f"{url}/run", max_steps=6, copies_dir=first)
    store, key = stores.find(f"{url}/run")
    kept = RunResult.of_text(store.read(f"{key}/result.json")[0], "result.json")
    assert {n: v for n, v in kept.metrics.items() if v is not None} == pytest.approx(
        {n: v for n, v in expected.metrics.items() if not math.isnan(v)}, rel=1e-6
    )
    texts = [store.read(f"{key}/{name}")[0].decode() for name in ("result.json", "flags.txt")]
    assert not any(str(tmp_path) in line for text in texts for line in text.splitlines()
                   if "copies_dir" not in line)  # fmt: skip
    assert f"--train_files={url}/data/train-*" in texts[1]
    assert not [each for each in store.objects(key) if "lock" in each.key]

    export = ek.run(ek.ExperimentConfig(
        mode="export", spec=f"{url}/data/spec.yaml", model_dir=f"{url}/run", model="linear",
        copies_dir=first,
    )).exports["final"]  # fmt: skip
    assert pathlib.Path(export).is_dir() and export.startswith(first)
    ek.run(ek.ExperimentConfig(
        mode="predict", export_dir=f"{url}/run/export/final", copies_dir=second,
        predict_files=(f"{url}/data/eval*",), predict_dir=f"{url}/predicted",
    ))  # fmt: skip
    ek.run(ek.ExperimentConfig(
        mode="evaluate", spec=f"{url}/data/spec.yaml", eval_files=(f"{url}/data/eval*",),
        model_dir=f"{url}/run", model="linear", copies_dir=first,
    ))  # fmt: skip
    assert store.read("run/evaluation-evaluate.json") is not None
    names = [each.key for each in store.objects("predicted")]
    assert "predicted/_SUCCESS" in names and len(names) == 4
