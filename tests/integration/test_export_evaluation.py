"""`--mode=evaluate --export_dir`: an export has the same metrics as its checkpoint."""

from __future__ import annotations

import importlib
import json
import pathlib
import shutil

import numpy as np
import pytest

import estimator_kit as ek
from estimator_kit import exit_codes
from estimator_kit.errors import ExportError
from estimator_kit.model.heads import row_metric
from estimator_kit.scoring import export as exports
from input_pipelines.record_files import writing
from tests.conformance import table
from tests.conftest import DOCUMENT, make_rows, place, small_run
from tests.programs import run

NO_LOSS = (
    "the model combines the losses of its objectives and adds its regularization, and an export "
    "contains neither"
)

REMEDY = (
    "Use records that fit the spec of the export, or leave out the other records with "
    "--corrupt_data_policy=skip_record."
)


@pytest.fixture(scope="module")
def small(ads):
    params = {"hidden_units": [8], "learning_rate": 0.1}
    return lambda model_dir: small_run(
        ads, model_dir, model="wide_deep", model_params=params, max_steps=20,
        save_checkpoints_steps=20,
    )  # fmt: skip


@pytest.fixture
def versions(trained, config):
    """A separate exporter folder for the test."""
    return pathlib.Path(config().model_dir, "export", "final")


@pytest.fixture
def export(versions):
    (version,) = versions.iterdir()
    return version


@pytest.fixture
def score(config, export):
    """Evaluates the export without a spec and without a model directory."""

    def score(**changes):
        given = {"spec": "", "model_dir": None, "train_files": (), "export_dir": str(export)}
        return ek.run(config(mode="evaluate", **{**given, **changes}))

    return score


def looks(folder):
    """For each file below a folder, its modification time and its bytes."""
    return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.rglob("*") if p.is_file()}


def check_equal(scored, checkpoint):
    """Checks that an export has all metrics of its checkpoint except the loss of the model."""
    assert set(scored) == set(checkpoint) - {"loss"}
    for name, value in scored.items():
        # AUC has 16,384 bins, and a logit at the edge of a bin may fall into the next one. The bins
        # of a concordance are wider.
        limit = 1e-4 if name.startswith("auc") else 1e-3 if name.startswith("conc") else 1e-5
        assert value == pytest.approx(checkpoint[name], rel=limit, abs=limit, nan_ok=True), name


@pytest.mark.ci
def test_an_export_has_the_metrics_of_its_checkpoint(config, export, score):
    before = looks(export)
    for changes in ({}, {"eval_batch_size": 7, "eval_steps": 3}):
        checkpoint = ek.run(config(mode="evaluate", **changes))
        scored = score(**changes)
        check_equal(scored.metrics, checkpoint.metrics)
        assert scored.rows_evaluated == checkpoint.rows_evaluated == (21 if changes else 200)
        assert (scored.global_step, scored.metrics["global_step"]) == (20, 20.0)
        assert scored.metrics_left_out == {"loss": NO_LOSS}
        assert checkpoint.metrics_left_out == {}
    assert looks(export) == before
    # A transformed export can be evaluated too.
    frozen = export.parent.parent / "frozen"
    ek.run(ek.ExperimentConfig(
        mode="transform", export_dir=str(export), transform="freeze", transform_dir=str(frozen),
        predict_files=config().eval_files,
    ))  # fmt: skip
    check_equal(score(export_dir=str(frozen)).metrics, ek.run(config(mode="evaluate")).metrics)


@pytest.mark.ci
def test_the_metrics_by_numpy(ads, export, score):
    """NumPy computes them from the export's probabilities. `buy` is masked without a click."""
    rows = make_rows(200, seed=9)
    paths = [f"{ads}/eval.tfrecord"]
    batches = list(exports.predictions(exports.read(str(export), ""), paths, 64))
    found = score().metrics
    for name, weights in (("click", np.ones(200)), ("buy", [row["click"] for row in rows])):
        labels = np.array([row[name] for row in rows], np.float64)
        likely = np.concatenate([b[f"{name}/logistic"][:, 0] for b in batches]).astype(np.float64)
        losses = -np.log(np.where(labels > 0, likely, 1 - likely))
        assert found[f"loss/{name}"] == pytest.approx(np.average(losses, weights=weights), rel=1e-5)
        right = (likely > 0.5) == (labels > 0)
        assert found[f"accuracy/{name}"] == pytest.approx(np.average(right, weights=weights))
        assert found[f"weight_sum/{name}"] == np.sum(weights)
        logits = np.concatenate([b[f"{name}/logits"][:, 0] for b in batches])
        auc = row_metric("auc", "binary", labels, logits, weights).value()
        assert found[f"auc/{name}"] == pytest.approx(auc, rel=1e-9)
    assert found["rows"] == 200


@pytest.mark.ci
def test_a_spec_that_means_the_same_says_rows_and_metrics(config, score, tmp_path, document):
    document["filter"] = [{"feature": "city", "in": ["rome"]}]
    document["objectives"]["click"]["metrics"] = ["log_loss", "confusion"]
    (tmp_path / "spec.json").write_text(json.dumps(document))
    fields = {"spec": str(tmp_path / "spec.json")}
    checkpoint, scored = ek.run(config(mode="evaluate", **fields)), score(**fields)
    rome = sum(row["city"] == "rome" for row in make_rows(200, seed=9))
    assert scored.rows_evaluated == rome == checkpoint.rows_evaluated
    assert scored.rows_selected == {"eval": {"read": 200, "kept": rome, "dropped": 200 - rome}}
    assert "log_loss/click" in scored.metrics
    check_equal(scored.metrics, checkpoint.metrics)
    document["columns"]["user"]["size"] = 21
    (tmp_path / "spec.json").write_text(json.dumps(document))
    with pytest.raises(
        ek.ConfigError, match=r"differs from the spec of the export .*\n  columns.user"
    ):
        score(**fields)


@pytest.mark.ci
def test_a_folder_of_versions_has_its_newest_complete_one_scored(
    versions, export, score, caplog, tmp_path
):
    number = int(export.name)
    shutil.copytree(export, versions / str(number + 1))
    (versions / str(number + 2) / "variables").mkdir(parents=True)  # An incomplete copy.
    (versions / ".staging-1-1").mkdir()
    newest = f"{versions}/{number + 1}"
    with caplog.at_level("INFO", "estimator_kit"):
        scored = score(export_dir=str(versions), model_dir=str(tmp_path / "numbers"))
    assert f"{versions}/{number + 2} has no saved_model.pb. Using {newest}." in caplog.text
    assert f"the export is {newest}" in caplog.text
    kept = json.loads((tmp_path / "numbers" / "evaluation-evaluate.json").read_text())
    assert kept["export_dir"] == newest and kept["metrics"] == scored.metrics


@pytest.mark.nightly
def test_every_head(tmp_path, monkeypatch):
    """Some heads have another name for their logits, and ranking needs the lists of a batch.

    As in a process whose training was deterministic, where random numbers need a seed.
    """
    heads = {name: name for name in table.ROW_HEADS}
    rows = sorted(table.make_rows(60, heads), key=lambda row: row["city"])
    for i, row in enumerate(rows):
        row["city"] = f"{row['city']}-{i // 4}"
    writing.write_examples(f"{tmp_path}/rows.tfrecord", rows)
    writing.write_examples(f"{tmp_path}/train.tfrecord", rows)
    document = table.document(heads, ("deep",))
    (tmp_path / "spec.json").write_text(json.dumps(document))
    fields = {
        "spec": f"{tmp_path}/spec.json", "model": "dnn", "model_dir": f"{tmp_path}/model",
        "model_params": {"hidden_units": [4]}, "eval_files": (f"{tmp_path}/rows.tfrecord",),
        "eval_batch_size": 17,
    }  # fmt: skip
    made = ek.run(ek.ExperimentConfig(
        **fields, train_files=(f"{tmp_path}/train.tfrecord",), batch_size=20, max_steps=3,
        exporters=("final",),
    ))  # fmt: skip
    tf_config = importlib.import_module("tensorflow.python.framework.config")
    monkeypatch.setattr(tf_config, "is_op_determinism_enabled", lambda: True)
    checkpoint = ek.run(ek.ExperimentConfig(mode="evaluate", **fields))
    scored = ek.run(ek.ExperimentConfig(
        mode="evaluate", export_dir=made.exports["final"], eval_files=fields["eval_files"],
        eval_batch_size=17,
    ))  # fmt: skip
    check_equal(scored.metrics, checkpoint.metrics)


def test_the_program_keeps_the_numbers_or_prints_them(ads, config, export, tmp_path):
    flags = ("--mode=evaluate", f"--export_dir={export}", f"--eval_files={ads}/eval.tfrecord")
    done = run(tmp_path, *flags)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["eval_files"] == [f"{ads}/eval.tfrecord"] and printed["rows_evaluated"] == 200
    assert printed["metrics_left_out"] == {"loss": NO_LOSS}
    assert f"the export is {export}\nnot computed: loss: {NO_LOSS}\n" in done.stderr
    model_dir = config().model_dir
    kept = run(tmp_path, *flags, f"--model_dir={model_dir}", "--eval_name=export")
    assert kept.returncode == 0, kept.stderr
    path = f"{model_dir}/evaluation-export.json"
    assert kept.stdout.endswith(f"the metrics of this evaluation are in {path}\n")
    expected = {**printed, "eval_name": "export"}
    assert json.loads(pathlib.Path(path).read_text()) == expected
    assert not pathlib.Path(model_dir, "eval_export").exists()


def test_what_an_export_does_not_say_is_listed(export, score):
    extra = export / "assets.extra"
    metrics = json.loads((extra / "metrics.json").read_text())
    metrics.update({"loss_factor/click": 0.7, "mine/click": 1.0})
    (extra / "metrics.json").write_text(json.dumps(metrics))
    (extra / "lineage.json").unlink()
    learned = "training learned it outside the model, and an export does not contain it"
    no_step = "the export does not say at which step it was written"
    found = score()
    assert found.metrics_left_out == {
        "loss": NO_LOSS, "global_step": no_step, "loss_factor/click": learned,
        "mine/click": "the evaluation of the checkpoint had it, but logits and labels are not "
        "enough for it",
    }  # fmt: skip
    assert found.global_step is None and "global_step" not in found.metrics
    (extra / "metrics.json").write_text("{}")
    assert score().metrics_left_out == {
        "loss": NO_LOSS, "global_step": no_step,
        "loss_factor/*": f"if the model has any: {learned}",
    }  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", None])
def test_a_damaged_extra_file_is_reported_before_the_scoring(
    export, score, caplog, monkeypatch, content
):
    for name in ("metrics.json", "lineage.json"):
        path = export / "assets.extra" / name
        path.unlink()
        path.mkdir() if content is None else path.write_bytes(content)
    said = []
    load = exports.load
    monkeypatch.setattr(
        exports, "load", lambda *a, **k: said.extend(caplog.messages) or load(*a, **k)
    )
    with caplog.at_level("WARNING", "estimator_kit"):
        found = score()
    assert found.rows_evaluated == 200 and found.global_step is None
    assert list(found.metrics_left_out) == ["loss", "global_step", "loss_factor/*"]
    for name in ("metrics.json", "lineage.json"):
        path = export / "assets.extra" / name
        (text,) = [each for each in said if each.startswith(str(path))]
        assert text.endswith("Until then, it is treated as missing.")


def test_where_the_numbers_have_no_place(config, export, score):
    before = looks(export)
    for inside in (export, export / "assets.extra" / "new"):
        with pytest.raises(ek.ConfigError) as error:
            score(model_dir=str(inside))
        assert str(error.value) == (
            f"--model_dir={inside} is inside the export {export}. The kit never writes into an "
            "export, because a server may use it. Name another folder, or remove --model_dir."
        )
    ek.run(config(mode="evaluate"))
    with pytest.raises(ek.ConfigError) as error:
        score(model_dir=config().model_dir)
    assert str(error.value) == (
        f"{config().model_dir}/evaluation-evaluate.json has the evaluation of a checkpoint. Give "
        "the evaluation of the export another name, for example --eval_name=export."
    )
    assert looks(export) == before


@pytest.mark.ci
def test_exports_that_cannot_be_scored(ads, export, score, tmp_path):
    def refused(kind=ek.ConfigError, **changes):
        with pytest.raises(kind) as error:
            score(**changes)
        return str(error.value)

    expected = "expected an export (a folder with saved_model.pb) or a folder of versions with one"
    missing = str(tmp_path / "missing")
    check = "Check the path, or write an export with --mode=export."
    assert refused(export_dir=missing) == (
        f"--export_dir={missing}: {expected}, got a folder that does not exist. {check}"
    )
    (tmp_path / "bare" / "17").mkdir(parents=True)
    bare = str(tmp_path / "bare")
    assert refused(export_dir=bare) == (
        f"--export_dir={bare}: {expected}, got a folder with neither. {check}"
    )
    missing = "--eval_files is missing. --mode=evaluate needs it unless you give --input_fn."
    assert refused(eval_files=()) == missing
    unlabeled = f"{tmp_path}/unlabeled.tfrecord"
    rows = make_rows(3)
    del rows[1]["click"]
    writing.write_examples(unlabeled, rows)
    assert refused(ek.DataError, eval_files=(unlabeled,)) == (
        f"{unlabeled}: {place(unlabeled, 1)}: label 'click' is missing. {REMEDY}"
    )
    assert score(eval_files=(unlabeled,), corrupt_data_policy="skip_record").rows_evaluated == 2
    text = refused(
        ek.DataError, eval_files=(unlabeled,), corrupt_data_policy="skip_record", max_bad=0
    )
    assert text.endswith(f": label 'click' is missing. {REMEDY}")
    kept = export / "assets.extra" / "feature_spec"
    kept.rename(tmp_path / "kept")
    assert refused() == (
        f"--export_dir={export} has no feature spec, which says what the labels are. Pass the spec "
        "that it was made with as --spec."
    )
    assert score(spec=f"{ads}/spec.yaml").rows_evaluated == 200
    document = json.loads(json.dumps(DOCUMENT))
    document["labels"]["like"] = {"dtype": "int64"}
    document["objectives"]["like"] = {"head": "binary"}
    (tmp_path / "spec.json").write_text(json.dumps(document))
    text = refused(spec=f"{tmp_path}/spec.json")
    assert text.startswith(
        f"--export_dir={export} lacks the objective 'like': expected the output 'like/logits' of "
        "the signature predict_examples, got buy/class_ids, buy/classes, buy/logistic, buy/logits"
    )
    del document["labels"]["like"], document["objectives"]["like"]
    document["objectives"]["click"] = {"head": "multi_class", "num_classes": 3}
    (tmp_path / "spec.json").write_text(json.dumps(document))
    assert refused(spec=f"{tmp_path}/spec.json") == (
        f"--export_dir={export}: the output 'click/logits' has 1 numbers for each row, expected 3 "
        "for the objective 'click' of the spec"
    )
    next((export / "variables").glob("*.data*")).write_bytes(b"")
    text = refused(ExportError, spec=f"{ads}/spec.yaml")
    assert text.startswith(f"--export_dir={export} does not load: ")


def test_an_export_is_for_some_modes(export, tmp_path):
    given = ("--spec=s", "--model_dir=m", f"--export_dir={export}")
    done = run(tmp_path, "export", *given)
    assert done.returncode == exit_codes.BAD_CONFIG
    assert done.stderr == (
        "error: --mode=export does not read --export_dir. Remove the flag; it is for evaluate, "
        "predict, inspect and transform.\n"
    )
    done = run(tmp_path, "--mode=evaluate", "--eval_files=x")
    assert done.returncode == exit_codes.BAD_CONFIG
    assert done.stderr == (
        "error: --spec is missing. --mode=evaluate needs it unless you give --export_dir.\n"
        "--model_dir is missing. --mode=evaluate needs it unless you give --export_dir.\n"
    )
