"""Every command, program and curl line of the pages in docs/guides works."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import re
import sys
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from estimator_kit.commands import command_line
from estimator_kit.config.flags import config_from_flags, define_flags
from estimator_kit.serving import server
from tests import rounding
from tests.integration import guides

pytestmark = pytest.mark.ci

COUNTS = {
    "damaged_data": 1, "data": 4, "distributed": 1, "evaluation": 1,
    "exports": 6, "first_spec": 8, "item_index": 3,
    "keras": 1, "logs": 6, "models": 1, "next_item": 3, "own_rows": 2, "serving": 1,
    "tables": 3, "training": 6, "troubleshooting": 1, "tuning_speed": 3,
}  # fmt: skip

# Pages whose modes have other tests in `.ci/run`.
NIGHTLY = ("data", "distributed", "evaluation",
           "exports", "first_spec", "item_index", "keras", "logs",
           "next_item", "own_rows", "tables", "training", "tuning_speed")  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(folder))
        patched.setenv("PYTHONPATH", f"{folder}:{guides.ROOT}")
        patched.setenv("PATH", "")
        guides.make_home(folder)
        yield folder
    for name in guides.programs_of_pages():
        sys.modules.pop(name.removesuffix(".py"), None)


@pytest.fixture(scope="module")
def printed_by(home):
    """What the commands of a page print. It runs them once, in `home`, in their order."""

    @functools.cache
    def run(name):
        outputs = []
        for command in guides.commands(name):
            if command != guides.TRAINING:  # `home` has done it.
                done = guides.run(home, command)
                assert done.returncode == 0, f"{command}\n{done.stderr}"
                outputs.append(done.stdout)
        return "".join(outputs)

    return run


def test_the_commands_are_those_that_are_tested_here():
    found = {name: len(guides.commands(name)) for name in guides.NAMES}
    assert {name: count for name, count in found.items() if count} == COUNTS
    servers = guides.commands("serving", "console", "estimator-kit")
    assert (len(servers), len(guides.commands("serving", "console", "curl"))) == (1, 4)


def check_training(home, printed):
    assert len((home / "runs/mine/predictions.jsonl").read_text().splitlines()) == 1000
    outputs = {path.name for path in (home / "runs/mine").iterdir()}
    (listed,) = [t for t in guides.snippets("training", "text") if t.startswith("model_dir/")]
    for name in re.findall(r"^  ([\w./]+)", listed, re.M):
        top = name.split("/")[0]
        assert any(output.startswith(top.rstrip("*-")) for output in outputs), name


def check_evaluation(home, printed):
    result = json.loads((home / "runs/sets/result.json").read_text())
    (best,) = re.findall(r"^best evaluation: auc/click (\S+) \(test (\S+)\) at step", printed, re.M)
    assert best[0] == f"{result['best']['metrics']['auc/click']:.4f}"
    assert best[1] == f"{result['best']['eval_sets']['test']['metrics']['auc/click']:.4f}"


def check_exports(home, printed):
    scored = {path.name for path in (home / "scored").iterdir()}
    given = {path.name for path in (home / "data/ads/dt=2026-01-08").glob("*.tfrecord")}
    assert scored == given | {"_MANIFEST.json", "_PLAN.json", "_SUCCESS"}
    kept = json.loads((home / "runs/mine/evaluation-export.json").read_text())
    assert kept["export_dir"].startswith("runs/mine/export/best/") and kept["rows_evaluated"]
    newest = max(path.name for path in (home / "runs/mine/export/final").iterdir())
    assert newest > max(guides.VERSIONS)  # It is from the mode `export`.
    assert f"by runs/mine/export/final/{newest}: " in printed


def check_serving(home, printed):
    assert (home / "serving" / "models.config").exists()


def check_logs(home, printed):
    """A random order has a recall of .25, and the order of most users is known."""
    (shard,) = (home / "data/held_out").glob("test-*")
    metrics = json.loads((home / "runs/purchases/evaluation-test.json").read_text())
    rows = sum(1 for _ in tf.data.TFRecordDataset(str(shard)))
    assert metrics["rows_evaluated"] == rows
    found = [value for name, value in metrics["metrics"].items() if "recall_at_10" in name]
    assert len(found) == 1 and found[0] > 0.7


def check_next_item(home, printed):
    """Five items of 40 for each row, and the model of the page beats a random order."""
    lines = (home / "best_items.jsonl").read_text().splitlines()
    best = [json.loads(line) for line in lines]
    assert len(best) == sum(1 for path in (home / "data/held_out").glob("test-*")
                            for _ in tf.data.TFRecordDataset(str(path)))  # fmt: skip
    for row in best:
        assert len(row["items"]) == len(set(row["items"])) == 5
        assert row["scores"] == sorted(row["scores"], reverse=True)
    result = json.loads((home / "runs/last_step/result.json").read_text())
    assert result["metrics"]["recall_at_10/next_item_id"] > 0.6


def check_item_index(home, printed):
    items = (home / "runs/purchases/index/items.txt").read_text().splitlines()
    vectors = np.load(home / "runs/purchases/vectors/vectors.npy")
    assert len(items) == len(set(items)) == len(vectors)
    index = json.loads((home / "runs/purchases/index/index.json").read_text())
    assert (index["items"], index["recall_at_10"]) == (len(items), 1.0)


# The pages whose models a page goes on with.
NEEDS = {"item_index": "logs", "next_item": "logs"}

RESULTS = {
    "item_index": check_item_index,
    "logs": check_logs,
    "next_item": check_next_item,
    "training": check_training,
    "evaluation": check_evaluation,
    "exports": check_exports,
    "serving": check_serving,
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.nightly] if name in NIGHTLY else [])
        for name in sorted(COUNTS)
    ],
)
def test_every_command_of_a_page_works_in_its_order(home, printed_by, name):
    if name in NEEDS:
        printed_by(NEEDS[name])
    printed = printed_by(name)
    if name in RESULTS:
        RESULTS[name](home, printed)


def test_the_program_in_python_works(home):
    done = guides.run(home, ["python", "in_a_program.py"])
    assert done.returncode == 0, done.stderr
    auc, path = done.stdout.split()[-2:]
    assert 0 < float(auc) < 1
    assert (home / path / "saved_model.pb").exists()


def test_the_servers_answer_the_curl_lines(home, monkeypatch):
    with serving(home, monkeypatch) as addresses:
        lines = guides.commands("serving", "console", "curl")
        status, metadata, classes, labeled = (ask(line, addresses[1], home) for line in lines)
    versions = {entry["version"]: entry["state"] for entry in status["model_version_status"]}
    assert versions == dict.fromkeys(guides.VERSIONS, "AVAILABLE")
    assert "predict_raw" in metadata["metadata"]["signature_def"]["signature_def"]
    assert [len(row) for row in classes["results"]] == [2]
    assert len(labeled["outputs"]["click/logits"]) == 1


def test_the_example_of_the_client(home, monkeypatch):
    """As it stands on the page, by gRPC and by REST, at the server that the page starts."""
    (code,) = guides.snippets("serving", "python")
    by_rest = code.replace('GrpcClient("localhost:8500"', 'RestClient("http://localhost:8501"')
    assert by_rest != code
    with serving(home, monkeypatch) as addresses:
        for text in (code, by_rest):
            text = text.replace("localhost:8500", addresses[0])
            text = text.replace("http://localhost:8501", addresses[1])
            found: dict = {}
            exec(text.replace("timeout_secs=2", "timeout_secs=60"), found)
            outputs, raw = found["outputs"], found["raw_outputs"]
            assert set(outputs) == set(raw) and outputs["click/logits"].shape == (1, 1)
            np.testing.assert_allclose(
                raw["click/logits"], outputs["click/logits"], **rounding.CLOSE
            )
            (probability,) = outputs["click/logistic"].ravel()
            np.testing.assert_allclose(found["classes"].scores[0, 1], probability, rtol=1e-5)
            np.testing.assert_allclose(found["values"], [probability], rtol=1e-5)


@contextlib.contextmanager
def serving(home, monkeypatch):
    """(gRPC address, URL) of the page's server, with the page's versions and labels."""
    monkeypatch.chdir(home)
    (command,) = guides.commands("serving", "console", "estimator-kit")
    (written,) = guides.commands("serving")
    more = [flag for flag in written if flag.startswith(("--serving_versions", "--serving_labels"))]
    values = flags.FlagValues()
    define_flags(values)
    ports = ["--serving_grpc_port=0", "--serving_rest_port=0"]
    values([command[0], *command_line.with_mode(command[1:]), *more, *ports])
    with server.running(*[config_from_flags(values)] * 2) as (made, _):
        yield made.addresses


def ask(arguments, url, home):
    """What a curl line gets; the record that the page leaves out is a real one."""
    body = arguments[arguments.index("-d") + 1] if "-d" in arguments else None
    address = arguments[-1].replace("http://127.0.0.1:8501", url)
    if body is not None and "Cgk..." in body:
        first = next((home / "data" / "ads" / "dt=2026-01-08").glob("*.tfrecord"))
        record = next(tf.data.TFRecordDataset(str(first)).as_numpy_iterator())
        body = body.replace("Cgk...", base64.b64encode(record).decode())
    data = None if body is None else json.dumps(json.loads(body)).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data), timeout=60) as answer:
        return json.loads(answer.read())
