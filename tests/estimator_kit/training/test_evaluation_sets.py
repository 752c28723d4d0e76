"""Several evaluation sets in one training: names, metrics, and what the other sets never change."""

from __future__ import annotations

import os
import shutil
import types

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.config.areas.data import Data
from estimator_kit.observing import curves
from estimator_kit.observing.histories import EvaluationHistory
from estimator_kit.result import EvaluationResult, read_result
from estimator_kit.training import eval_input
from input_pipelines.errors import DataError
from input_pipelines.record_files import writing
from tests.conftest import make_rows, small_run


@pytest.fixture(scope="module")
def sets(ads, tmp_path_factory):
    """`--eval_files` with two more sets, and the folder of their files."""
    folder = tmp_path_factory.mktemp("sets")
    writing.write_examples(f"{folder}/test.tfrecord", make_rows(90, seed=20))
    writing.write_examples(f"{folder}/new.tfrecord", make_rows(30, seed=21))
    return (
        f"{ads}/eval.tfrecord",
        f"test={folder}/test.tfrecord",
        f"newcomers={folder}/new.tfrecord",
    )


@pytest.fixture(scope="module")
def trained(ads, sets, tmp_path_factory):
    """A config of a training with three sets, its result, and how often a graph was built."""
    folder = tmp_path_factory.mktemp("runs")
    config = small_run(
        ads, folder / "run", max_steps=4, save_checkpoints_steps=2, eval_files=sets,
        model="linear", best_metric="auc/click", exporters=("best",), eval_batch_size=70,
    )  # fmt: skip
    restored, built = [], []
    with pytest.MonkeyPatch.context() as patch:
        restore = tf.compat.v1.train.Saver.restore
        evaluated = tf.estimator.Estimator._call_model_fn_eval
        patch.setattr(
            tf.compat.v1.train.Saver, "restore",
            lambda *args: restored.append(args[2]) or restore(*args),
        )  # fmt: skip
        patch.setattr(
            tf.estimator.Estimator, "_call_model_fn_eval",
            lambda *args: built.append(1) or evaluated(*args),
        )  # fmt: skip
        result = ek.run(config())
    return config, result, (len(built), len([path for path in restored if "ckpt-4" in path]))


def metrics_of(evaluation):
    return {name: value for name, value in evaluation.metrics.items() if name != "global_step"}


def test_each_set_is_measured_as_alone(trained, sets):
    config, result, _ = trained
    assert result.rows_evaluated == 200
    assert {name: each.rows for name, each in result.eval_sets.items()} == {
        "test": 90, "newcomers": 30,
    }  # fmt: skip
    assert read_result(config().model_dir).eval_sets == result.eval_sets
    found = {"": result.metrics, **{n: each.metrics for n, each in result.eval_sets.items()}}
    for name, entry in zip(found, sets):
        _, _, files = entry.rpartition("=")
        alone = ek.run(config(mode="evaluate", eval_files=(files,), eval_name="alone"))
        assert found[name] == pytest.approx(dict(alone.metrics), rel=1e-6), name
    assert result.metrics["auc/click"] != result.eval_sets["test"].metrics["auc/click"]


def test_sets_share_one_graph_and_one_checkpoint(trained):
    _, _, (graphs, restored) = trained
    assert graphs == 1  # For the evaluations of the steps 2 and 4.
    assert restored == 1


def test_what_a_training_with_several_sets_writes(trained):
    config, result, _ = trained
    folder = config().model_dir
    entries = EvaluationHistory(folder).read()
    assert [e.global_step for e in entries] == [2, 4]
    assert [set(e.eval_sets) for e in entries] == [{"test", "newcomers"}] * 2
    assert entries[1].eval_sets == result.eval_sets
    best = max(entries, key=lambda entry: entry.metrics["auc/click"])
    assert (result.best.metric, result.best.global_step) == ("auc/click", best.global_step)
    assert result.best.eval_sets == best.eval_sets and result.best.metrics == best.metrics
    for name, each in result.eval_sets.items():
        (events,) = tf.io.gfile.glob(f"{folder}/eval_{name}/events*")
        values = {
            (event.step, value.tag): value.simple_value
            for event in tf.compat.v1.train.summary_iterator(events)
            for value in event.summary.value
        }
        assert values[4, "auc/click"] == pytest.approx(each.metrics["auc/click"])
        assert (4, "pr_curve/click") in values
        assert os.path.exists(f"{folder}/observed/curves/4-{name}.json")
    assert list(curves.read(folder)) == [2, 4]


def test_a_test_file_may_not_judge(ads, sets, tmp_path):
    """Under any spelling. Another set may have some of the files that judge."""
    link = tmp_path / "link.tfrecord"
    link.symlink_to(f"{ads}/eval.tfrecord")
    config = small_run(ads, tmp_path / "run", eval_files=(sets[0], f"test={link}"))()
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config)
    assert str(error.value) == (
        f"--eval_files, set test: {link} is also one of the files that judge. The rows of this set "
        "may not choose the model. Name other files, or give the set another name."
    )
    assert not os.path.exists(config.model_dir)
    data, spec = Data(eval_files=(sets[0], f"market={link}")), ek.load_spec(config.spec)
    program = types.SimpleNamespace(mode="train_and_evaluate")
    assert eval_input.all_paths(program, data, spec)["--eval_files, set market"] == [str(link)]


def test_other_sets_change_neither_the_training_nor_its_scores(trained, ads, tmp_path):
    config, result, _ = trained
    one = ek.run(config(model_dir=str(tmp_path / "one"), eval_files=(f"{ads}/eval.tfrecord",)))
    assert (one.metrics, one.scores, one.eval_sets) == (result.metrics, result.scores, {})


def test_a_finished_training_measures_a_new_set_and_no_old_one_again(trained, sets, tmp_path):
    config, result, _ = trained
    folder = str(tmp_path / "run")
    shutil.copytree(config().model_dir, folder)
    with pytest.raises(ek.NothingToDo):
        ek.run(config(model_dir=folder))
    with pytest.raises(ek.NothingToDo):
        ek.run(config(model_dir=folder, eval_files=sets[:2]))
    more = (*sets, f"again={sets[1].partition('=')[2]}")
    again = ek.run(config(model_dir=folder, eval_files=more))
    assert again.metrics == result.metrics
    assert again.eval_sets["again"].metrics == result.eval_sets["test"].metrics
    # Other files by the same name are another set.
    swapped = (sets[0], f"test={sets[2].partition('=')[2]}")
    again = ek.run(config(model_dir=folder, eval_files=swapped))
    assert again.eval_sets["test"].metrics == result.eval_sets["newcomers"].metrics


def test_an_evaluation_of_several_sets(trained, sets, tmp_path):
    config, result, _ = trained
    scored = ek.run(config(mode="evaluate", eval_files=sets[1:], eval_batch_size=7))
    assert scored.rows_evaluated == 90  # The first name judges where each set has one.
    close = pytest.approx(dict(result.eval_sets["newcomers"].metrics), rel=1e-5)
    assert scored.eval_sets["newcomers"].metrics == close
    kept = EvaluationResult.load(f"{config().model_dir}/evaluation-evaluate.json")
    assert kept.eval_sets == scored.eval_sets
    assert tf.io.gfile.glob(f"{config().model_dir}/eval_evaluate_newcomers/events*")
    of_export = ek.run(
        config(mode="evaluate", eval_files=sets, model_dir=None, export_dir=result.exports["best"])
    )
    for name, each in result.best.eval_sets.items():
        expected = each.metrics["auc/click"]
        assert of_export.eval_sets[name].metrics["auc/click"] == pytest.approx(expected, rel=1e-5)


def test_sets_that_cannot_be_evaluated(trained, ads, sets, tmp_path):
    config, _, _ = trained
    writing.write_examples(f"{tmp_path}/empty.tfrecord.gz", [])
    new = config(model_dir=str(tmp_path / "new"))
    for entry, message in (
        (
            f"none={tmp_path}/empty.tfrecord.gz",
            "--eval_files, set none: its 1 files have no records",
        ),
        (f"none={tmp_path}/no*", f"no file matches '{tmp_path}/no*' of --eval_files, set none"),
    ):
        with pytest.raises(DataError) as error:
            ek.run(new.model_copy(update={"eval_files": (sets[0], entry)}))
        assert str(error.value) == message
    shared = (sets[0], sets[1], f"seen={ads}/train-1.tfrecord")
    with pytest.raises(ek.ConfigError) as error:
        ek.run(new.model_copy(update={"eval_files": shared}))
    assert "--train_files and --eval_files, set seen share 1 files, the first is" in str(
        error.value
    )
    assert not os.path.exists(new.model_dir)


def test_names_and_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs("country=de")

    def parsed(*entries):
        data = Data(eval_files=entries)
        return data.judging_files, data.other_sets

    assert parsed() == ((), {})
    assert parsed("a", "test=b", "c", "test=d=e") == (("a", "c"), {"test": ("b", "d=e")})
    assert parsed("test=b", "n_2=c") == (("b",), {"n_2": ("c",)})
    # What is a path stays one.
    paths = ("dt=2026-01-08/a", "dt=*/*", "x/test=b", "/x=1/b", "country=de/a", "country=*/a",
             "Test=b", "2=b", "test=", "gs://x/test=b")  # fmt: skip
    assert parsed(*paths) == (paths, {})
    assert parsed("a", "country=be/a") == (("a",), {"country": ("be/a",)})


def test_days_of_all_sets():
    data = Data(eval_files=("a/dt=*/x", "test=dt=*/y"), eval_days="2026-01-08")
    assert data.patterns_of("eval") == ("a/dt=2026-01-08/x",)
    assert data.of_days(data.other_sets["test"], "eval") == ("dt=2026-01-08/y",)
