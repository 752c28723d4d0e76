"""Pretrained tables in whole runs: loaded once, frozen or trained, and not in an export's graph."""

from __future__ import annotations

import copy
import json
import logging
import os

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit import exit_codes, main
from estimator_kit.model import pretrained_tables
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT, make_rows, small_run

TABLE = "dnn/input_from_feature_columns/input_layer/city_embedding/embedding_weights"


@pytest.fixture
def config(tmp_path):
    document = copy.deepcopy(DOCUMENT)
    document["columns"]["city_emb"] = {
        "embedding": "city", "dimension": 2, "trainable": False,
        "pretrained": {"file": "cities.txt"},
    }  # fmt: skip
    document["groups"]["deep"].append("city_emb")
    (tmp_path / "spec.yaml").write_text(json.dumps(document))
    (tmp_path / "cities.txt").write_text("oslo 3 4\nlima 1 1\n")
    writing.write_examples(f"{tmp_path}/rows.tfrecord", make_rows(100))

    return small_run(
        tmp_path, tmp_path / "model", mode="train", model="dnn",
        model_params={"hidden_units": [4]}, train_files=(f"{tmp_path}/rows.tfrecord",),
        eval_files=(), max_steps=4,
    )  # fmt: skip


def messages(caplog, level):
    return [record.getMessage() for record in caplog.records if record.levelno == level]


def table_of(config):
    return tf.train.load_variable(config.model_dir, TABLE)


@pytest.mark.nightly
def test_a_frozen_table_is_what_the_file_says_and_a_restart_needs_no_file(config, tmp_path, caplog):
    writing.write_examples(f"{tmp_path}/eval.tfrecord", make_rows(50, seed=1))
    run = config(
        mode="train_and_evaluate", eval_files=(f"{tmp_path}/eval.tfrecord",), exporters=("final",)
    )
    with caplog.at_level(logging.INFO, "estimator_kit"):
        result = ek.run(run)
    assert (
        "column city_emb: 1 of 3 ids start from pretrained vectors, 2 from the initializer; "
        "1 vectors are for words outside the vocabulary" in caplog.messages
    )
    assert (
        "column 'city_emb': trainable is false, but 2 of 3 ids (1 of them out-of-vocabulary "
        "buckets) have no pretrained vector, so they keep random vectors. Add vectors for them, "
        "or set initializer: zeros or trainable: true." in messages(caplog, logging.WARNING)
    )
    first = table_of(run)
    np.testing.assert_array_equal(first[1], [3, 4])  # The words are rome, oslo.
    assert np.abs(first[[0, 2]]).min() > 0
    (tmp_path / "cities.txt").unlink()
    ek.run(config(max_steps=8))
    np.testing.assert_array_equal(table_of(run), first)
    with open(f"{result.export_path}/saved_model.pb", "rb") as file:
        assert b"cities.txt" not in file.read()


def test_vectors_that_ftrl_would_replace_are_refused(config, tmp_path):
    document = json.loads((tmp_path / "spec.yaml").read_text())
    document["columns"]["city_emb"]["trainable"] = True
    (tmp_path / "spec.yaml").write_text(json.dumps(document))
    run = config(model_params={"hidden_units": [4], "optimizer": "ftrl"})
    with pytest.raises(ek.ConfigError) as error:
        ek.run(run)
    assert str(error.value) == (
        "column 'city_emb': the optimizer ftrl would replace its pretrained vectors at the first "
        "step, because it computes weights from gradients only. Use another optimizer for this "
        "table, or trainable: false."
    )
    assert not os.path.exists(run.model_dir)
    spec = ek.load_spec(str(tmp_path / "spec.yaml"))
    slots = {f"{TABLE}/Ftrl", f"{TABLE}/Ftrl_1"}
    pretrained_tables.check(spec, {TABLE, *slots}, {TABLE, *slots})  # A warm start takes both.
    with pytest.raises(ek.ConfigError, match="would replace its pretrained vectors"):
        pretrained_tables.check(spec, {TABLE, *slots}, {TABLE})


@pytest.mark.ci
def test_tensorflow_warns_of_nothing_in_the_graph(config, caplog):
    with caplog.at_level(logging.WARNING, "tensorflow"):
        ek.run(config())
    assert not [text for text in messages(caplog, logging.WARNING) if "serializing" in text]


def validated(config, capsys):
    """Runs `--mode=validate`, and returns its output and its exit status."""
    folder = os.path.dirname(config.spec)
    status = main.main(["run.py", "--mode=validate", f"--spec={config.spec}",
                        f"--train_files={folder}/rows.tfrecord", "--model=dnn",
                        f"--model_dir={config.model_dir}"])  # fmt: skip
    printed = capsys.readouterr()
    return status, printed.out + printed.err


def test_validate_looks_at_the_file_while_no_checkpoint_has_the_table(config, tmp_path, capsys):
    status, text = validated(config(), capsys)
    assert status == 0
    assert (
        "\n  pretrained city_emb: cities.txt: 1 of 3 ids have a vector"
        "\n  warning: column 'city_emb': trainable is false, but 2 of 3 ids" in text
    )
    (tmp_path / "cities.txt").unlink()
    status, text = validated(config(), capsys)
    assert status == exit_codes.BAD_CONFIG
    assert "the spec and the flags are correct" not in text
    assert (
        f"columns.city_emb.pretrained: the file '{tmp_path}/cities.txt' does not exist. Correct "
        "the "
        "path. It is relative to the folder of the spec.\n" in text
    )
    with pytest.raises(ek.SpecError, match=r"spec.yaml:1: columns.city_emb.pretrained: the file "):
        ek.run(config(mode="validate"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model/checkpoint").write_text("")
    status, text = validated(config(), capsys)
    assert status == 0
    assert (
        "\n  pretrained vectors: not checked, because the checkpoint in --model_dir has them: "
        "city_emb" in text
    )


def test_the_first_checkpoint_has_the_vectors(config):
    run = config(save_checkpoints_steps=1, max_steps=1)
    ek.run(run)
    np.testing.assert_array_equal(
        tf.train.load_variable(f"{run.model_dir}/model.ckpt-0", TABLE)[1], [3, 4]
    )


@pytest.mark.nightly
def test_a_warm_start_wins_over_the_file(config, tmp_path):
    first = config()
    ek.run(first)
    (tmp_path / "cities.txt").write_text("oslo 7 7\n")
    again = config(model_dir=str(tmp_path / "again"), warm_start_from=first.model_dir)
    ek.run(again)
    np.testing.assert_array_equal(table_of(again), table_of(first))
    part = config(
        model_dir=str(tmp_path / "part"), warm_start_from=first.model_dir,
        warm_start_vars="dnn/hiddenlayer.*",
    )  # fmt: skip
    ek.run(part)
    np.testing.assert_array_equal(table_of(part)[1], [7, 7])


def test_vectors_that_do_not_fit_stop_before_anything_is_written(config, tmp_path):
    (tmp_path / "cities.txt").write_text("oslo 3 4 5\n")
    with pytest.raises(ek.SpecError, match=r"columns.city_emb.pretrained: .*3 numbers after the"):
        ek.run(config())
    assert not (tmp_path / "model").exists()


def test_weights_of_another_length_are_named(tmp_path):
    document = {
        "features": {
            "words": {"dtype": "string", "shape": "variable"},
            "weights": {"dtype": "float32", "shape": "variable"},
        },
        "columns": {
            "word": {"hash_bucket": "words", "size": 5},
            "weighted": {"weighted": "word", "weight": "weights"},
        },
        "groups": {"wide": ["weighted"]},
        "labels": {"click": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}},
    }
    (tmp_path / "spec.yaml").write_text(json.dumps(document))
    rows = [{"words": ["a", "b"], "weights": [1.0, 2.0], "click": 1} for _ in range(20)]
    rows[7]["weights"] = [1.0]
    writing.write_examples(f"{tmp_path}/rows.tfrecord", rows)
    with pytest.raises(
        ek.DataError,
        match=r"rows.tfrecord.*record 7.*feature 'weights' has 1 weights, but feature 'words' has "
        "2 values; expected one weight for each value",
    ):
        ek.run(
            ek.ExperimentConfig(
                spec=f"{tmp_path}/spec.yaml", model="linear", model_dir=f"{tmp_path}/model",
                mode="train", train_files=(f"{tmp_path}/rows.tfrecord",), batch_size=5, max_steps=8,
                exporters=(),
            )
        )  # fmt: skip
