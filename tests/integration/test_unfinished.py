"""A training that is killed at any write ends as an undisturbed one.

Between two writes, the disk does not change. So an undisturbed training copies its model directory
before each write: the copy is what a kill at this moment leaves. A start on each copy must end with
the same files.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.config.modes import command_of
from estimator_kit.distributed.evaluation import _Evaluator
from estimator_kit.exporters import saved_model
from estimator_kit.exporters.saved_model import RunExports
from estimator_kit.exporters.writer import Written
from estimator_kit.observing.page import page
from estimator_kit.result import read_result
from estimator_kit.training import data_service, unfinished
from estimator_kit.training.hooks.stop import StopRequest
from estimator_kit.training.preparation import make_model
from feature_specs.files import documents, versions
from feature_specs.parser import parser
from input_pipelines.record_files import writing
from tests.conftest import make_rows, small_run, variables

DOCUMENT = {
    "features": {"price": {"dtype": "float32"}},
    "columns": {"price": {"numeric": "price"}},
    "groups": {"wide": ["price"]},
    "labels": {"click": {"dtype": "int64"}},
    "objectives": {"click": {"head": "binary", "metrics": []}},
}

# The losses of the steps 2, 4 and 6 are 0.6701, 0.6728 and 0.6712. So `best` is of step 2, step 6
# replaces step 4 in `best_k`, and training stops at step 6, as its loss is not the greatest.
RUN = {
    "model": "linear",
    "max_steps": 20,
    "save_checkpoints_steps": 2,
    "batch_size": 20,
    "early_stopping_metric": "max:loss",
    "early_stopping_patience": 1,
    "exporters": ("latest", "best", "best_k:2", "step:3", "final"),
    "exports_to_keep": 2,
    "deterministic": True,
}


def text_of(path):
    return pathlib.Path(path).read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def small_exports_and_page(monkeypatch):
    """Exports with the weights and without a graph, and a page that shows only the history."""
    monkeypatch.setattr(RunExports, "_sample", lambda exports: None)

    def write_saved_model(trained, spec, folder, checkpoint, **options):
        weights = {name: value.tolist() for name, value in variables(checkpoint).items()}
        documents.write_json(f"{folder}/weights.json", weights)
        return Written({}, frozenset(), {}, {}, {})

    monkeypatch.setattr(saved_model, "write_saved_model", write_saved_model)

    def write(model_dir):
        history = text_of(f"{model_dir}/eval_history.jsonl")
        documents.write_text(f"{model_dir}/{page.FILE}", history)
        return "report"

    monkeypatch.setattr(page, "write", write)
    monkeypatch.setattr(page, "attempt", lambda write: write())


@pytest.fixture
def watched(monkeypatch):
    """The functions that are called before each write, with the path of the write."""
    calls = []

    def patch(module, name, place):
        original = getattr(module, name)

        def write(*arguments, **named):
            for call in calls:
                call(os.fspath(arguments[place]))
            return original(*arguments, **named)

        monkeypatch.setattr(module, name, write)

    # The last call of every small file, export and deletion of the kit, and of a checkpoint.
    patch(os, "replace", 1)
    patch(tf.io.gfile, "rename", 1)
    patch(tf.io.gfile, "remove", 0)
    patch(tf.io.gfile, "rmtree", 0)
    patch(tf.compat.v1.train.Saver, "save", 2)
    return calls


def outcome(model_dir):
    """Everything that must not depend on kills, without the times in it."""
    result = read_result(model_dir)
    names = ("status", "stop_reason", "global_step", "metrics")
    return {
        **evaluated(model_dir),
        **{name: text_of(f"{model_dir}/{name}") for name in (page.FILE, "input.json")},
        "result": {
            **{name: getattr(result, name) for name in names},
            "exports": sorted(result.exports),
        },
    }


def evaluated(model_dir):
    """The part of it that an evaluation writes."""
    root = pathlib.Path(model_dir)
    names = ("eval_history.jsonl", "eval_meaning.json", "export/step/step.json")
    found = {name: text_of(root / name) for name in names}
    found.update({f"curves/{path.name}": text_of(path) for path in root.glob("observed/curves/*")})
    steps = {}
    for exporter in RUN["exporters"]:
        each = []
        for path in versions.paths(str(root / "export" / exporter)):
            lineage = json.loads(text_of(f"{path}/assets.extra/lineage.json"))
            steps[exporter, os.path.basename(path)] = lineage["global_step"]
            for name in ("created", "copy_of", "model_dir"):
                lineage.pop(name, None)
            files = [f"{path}/weights.json", f"{path}/assets.extra/metrics.json"]
            each.append((lineage, *map(text_of, files)))
        found[exporter] = each
    for exporter, name in (("best", "best.json"), ("best_k", "best_k.json")):
        record = json.loads(text_of(root / "export" / exporter / name))
        for entry in [*record.pop("history", ()), *record.get("best", ())]:
            entry["version"] = steps.get((exporter, entry["version"]))
        for entry in record.get("dropped", ()):
            entry.pop("version")
        found[name] = record
    found["unfinished"] = unfinished.unfinished_step(model_dir)
    return found


@pytest.fixture
def killed(tmp_path, watched):
    """A function that calls another one, and returns what a kill at each of its writes leaves.

    These are copies of the model directory, each with the path of the write that it came before.
    """
    model_dir = f"{tmp_path}/model"

    def record(call):
        copies = []

        def copy(path):
            begun = os.path.exists(f"{model_dir}/model.ckpt-0.index")
            inside = "/.tmp-version-" in os.path.dirname(path)  # See test_killed_exports.
            if path.startswith(model_dir) and begun and not inside:
                left = tmp_path / f"killed-{len(copies)}"
                shutil.copytree(model_dir, left)
                copies.append((left, os.path.relpath(path, model_dir)))

        watched.append(copy)
        call()
        watched.clear()
        return copies

    return record


def check_each(copies, model_dir, start, outcome):
    """Checks that a start after each kill leaves the same."""
    expected = outcome(model_dir)
    for left, name in copies:
        shutil.rmtree(model_dir)
        shutil.move(left, model_dir)
        start()
        found = outcome(model_dir)
        assert found.keys() == expected.keys(), (left, name)
        for what, value in expected.items():
            assert found[what] == value, (what, left, name)


def steps(model_dir):
    lines = text_of(f"{model_dir}/eval_history.jsonl").splitlines()
    return [json.loads(line)["global_step"] for line in lines]


@pytest.fixture
def config(tmp_path):
    (tmp_path / "spec.yaml").write_text(json.dumps(DOCUMENT))
    for name, seed in (("train-0", 0), ("eval", 9)):
        writing.write_examples(f"{tmp_path}/{name}.tfrecord", make_rows(200, seed=seed))
    return small_run(tmp_path, tmp_path / "model", **RUN)


@pytest.mark.nightly
def test_a_kill_at_any_write_changes_nothing(config, killed):
    model_dir = config().model_dir
    copies = killed(lambda: ek.run(config()))
    names = [name for _, name in copies]
    assert names.count("unfinished.json") == 8 and "export/step/step.json" in names
    assert read_result(model_dir).global_step == 6 and unfinished.unfinished_step(model_dir) is None
    check_each(copies, model_dir, lambda: ek.run(config()), outcome)
    with pytest.raises(ek.NothingToDo):
        ek.run(config())


@pytest.mark.nightly
def test_an_evaluator_ends_the_evaluation_that_it_has_begun(config, killed):
    """Meanwhile the chief has saved another checkpoint, which an undisturbed one scores next."""
    model_dir = config().model_dir
    ek.run(config(mode="train", max_steps=4, report="off"))
    spec = parser.load(config().spec)
    saved = [2]

    def start():
        tf.compat.v1.train.update_checkpoint_state(model_dir, f"model.ckpt-{saved[-1]}")
        given = config()
        own = _Evaluator(command_of(given), spec, make_model(given, spec), StopRequest())
        while own.newest() is not None:
            own.score(own.newest())

    copies = killed(start)
    saved.append(4)
    start()
    assert steps(model_dir) == [2, 4]
    assert copies.pop(0)[1] == "unfinished.json"  # Nothing has begun before it.
    check_each(copies, model_dir, start, evaluated)


@pytest.mark.parametrize(
    ("when", "left"),
    [
        pytest.param("model.ckpt", 2, marks=pytest.mark.ci),  # It breaks off the evaluation.
        pytest.param("eval_history.jsonl", None, marks=pytest.mark.nightly),  # It is too late.
    ],
)
def test_the_evaluation_that_sigterm_breaks_off_is_made_by_the_next_start(
    config, watched, when, left
):
    model_dir = config().model_dir

    def terminate(path):
        started = unfinished.unfinished_step(model_dir)
        if os.path.basename(path) == when and started == 2:
            watched.clear()
            os.kill(os.getpid(), signal.SIGTERM)

    watched.append(terminate)
    with pytest.raises(ek.Stopped):
        ek.run(config())
    assert unfinished.unfinished_step(model_dir) == left
    assert read_result(model_dir).global_step == 2
    result = ek.run(config())
    assert steps(model_dir) == [2, 4, 6]
    assert (result.stop_reason, result.global_step) == ("early_stopped", 6)
    history = json.loads(text_of(f"{model_dir}/export/best/best.json"))["history"]
    assert [entry["global_step"] for entry in history] == [2]


@pytest.mark.nightly
def test_a_checkpoint_of_sigterm_between_two_others_is_not_evaluated(config, monkeypatch):
    class AfterStep2(tf.compat.v1.train.SessionRunHook):
        ran = 0

        def after_run(self, run_context, run_values):
            self.ran += 1
            if self.ran == 2:
                os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(data_service, "hooks", lambda *areas: [AfterStep2()])
        with pytest.raises(ek.Stopped):
            ek.run(config())
    assert read_result(config().model_dir).global_step == 3
    ek.run(config())
    assert steps(config().model_dir) == [2, 4, 6]
