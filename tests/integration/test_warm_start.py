"""Warm starts in whole runs: what is taken, moved, renamed and refused. They happen only once."""

from __future__ import annotations

import glob
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from input_pipelines.record_files import writing
from tests.conftest import make_rows, variables

TABLE = "dnn/input_from_feature_columns/input_layer/city_embedding/embedding_weights"
LINEAR = "linear/linear_model/city/weights"


@pytest.fixture
def config(tmp_path, document):
    """Makes the config of a run of one step that learns almost nothing. `spec` is a document."""
    rows = [{**row, "kind": row["city"]} for row in make_rows(100)]
    writing.write_examples(f"{tmp_path}/rows.tfrecord", rows)
    document["columns"]["city_emb"] = {"embedding": "city", "dimension": 2}
    document["groups"]["deep"] = ["price", "user_emb", "city_emb"]
    document["groups"]["wide"] = ["price", "user", "city"]
    for name in ("city_hot", "city_x_tag", "tag", "tag_emb"):
        document["columns"].pop(name)
    document["ignored"] = ["tags"]
    document["labels"] = {
        "click": {"dtype": "int64"},
        "kind": {"dtype": "string", "vocabulary": ["rome", "oslo", "lima"]},
    }
    document["objectives"] = {
        "kind": {"head": "multi_class", "num_classes": 3}, "click": {"head": "binary"},
    }  # fmt: skip

    def make(name, *, rate=1e-9, optimizer="adagrad", **changes):
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
        values = {
            "spec": f"{tmp_path}/{name}.json",
            "model": "wide_deep",
            "model_params": {
                "hidden_units": [4], "optimizer": optimizer, "learning_rate": rate,
                "linear_optimizer": "adagrad", "linear_learning_rate": rate,
            },
            "model_dir": str(tmp_path / name),
            "mode": "train",
            "train_files": (f"{tmp_path}/rows.tfrecord",),
            "batch_size": 50,
            "max_steps": 1,
            "exporters": (),
        }  # fmt: skip
        return ek.ExperimentConfig(**{**values, **changes})

    return make


def report(config):
    with open(f"{config.model_dir}/warm_start_report.json", encoding="utf-8") as file:
        kept = json.load(file)
    return kept, {entry["name"]: entry for entry in kept["variables"]}


@pytest.fixture
def old(config, once):
    """The config of a run of six steps that was trained."""
    run = config("old", rate=0.1, max_steps=6)

    def make(folder):
        ek.run(run.model_copy(update={"model_dir": str(folder / "model")}))

    shutil.copytree(once("old_of_warm_starts", make) / "model", run.model_dir)
    return run


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_rows_and_classes_move_with_their_words_and_their_slots(config, old, document, caplog):
    document["columns"]["city"].update({"list": ["lima", "oslo", "bern", "rome"]})
    document["labels"]["kind"]["vocabulary"] = ["lima", "rome", "bern", "oslo"]
    document["objectives"] = {
        "click": {"head": "binary"}, "kind": {"head": "multi_class", "num_classes": 4},
    }  # fmt: skip
    new = config("new", warm_start_from=old.model_dir, warm_start_mode="all_but_step")
    with caplog.at_level("INFO", "estimator_kit"):
        ek.run(new)
    before, after = variables(old.model_dir), variables(new.model_dir)
    # Rows: rome, oslo, outside -> lima, oslo, bern, rome, outside.
    new_rows, old_rows = [1, 3, 4], [1, 0, 2]
    # Logits: kind's rome, oslo, lima, click -> click, kind's lima, rome, bern, oslo.
    new_logits, old_logits = [0, 1, 2, 4], [3, 2, 0, 1]
    close(after[TABLE][new_rows], before[TABLE][old_rows])
    close(after[LINEAR][np.ix_(new_rows, new_logits)], before[LINEAR][np.ix_(old_rows, old_logits)])
    close(after[LINEAR][[0, 2]], 0)
    close(after[LINEAR][:, 3], 0)
    close(after["dnn/logits/kernel"][:, new_logits], before["dnn/logits/kernel"][:, old_logits])
    close(after["dnn/logits/bias"][new_logits], before["dnn/logits/bias"][old_logits])
    bern = after[TABLE + "/Adagrad"][2]
    close(bern, 0.1)  # No row has bern, so its slot keeps the initial value.
    slot = before[TABLE + "/Adagrad"]
    assert slot[:2].max() > 0.10001
    # One step adds to the slots of its words, so they cannot be smaller than before.
    assert (after[TABLE + "/Adagrad"][new_rows] >= slot[old_rows] - 1e-6).all()
    assert after["global_step"] == 1
    kept, entries = report(new)
    assert (kept["mode"], kept["unused"]) == ("all_but_step", ["global_step"])
    assert entries[TABLE] == {
        "name": TABLE, "status": "remapped", "rows": {"kept": 3, "new": 2, "dropped": 0},
    }  # fmt: skip
    assert entries[LINEAR]["logits"] == {"kept": 4, "new": 1, "dropped": 0}
    assert entries["dnn/logits/bias/Adagrad"]["status"] == "remapped"
    assert entries["dnn/hiddenlayer_0/kernel"] == {
        "name": "dnn/hiddenlayer_0/kernel", "status": "restored",
    }  # fmt: skip
    assert entries["global_step"]["status"] == "new"
    assert f"{TABLE} (rows 3 kept, 2 new, 0 dropped)" in caplog.text


@pytest.mark.parametrize(
    "mode",
    [
        "weights",
        pytest.param("weights_and_stats", marks=pytest.mark.nightly),
        pytest.param("all_but_step", marks=pytest.mark.nightly),
        "all",
    ],
)
def test_modes(config, old, mode):
    end = 7 if mode == "all" else 1
    new = config("new", warm_start_from=old.model_dir, warm_start_mode=mode, max_steps=end)
    result = ek.run(new)
    assert (result.global_step, result.rows_trained) == (end, 50)
    before, after = variables(old.model_dir), variables(new.model_dir)
    close(after["dnn/hiddenlayer_0/kernel"], before["dnn/hiddenlayer_0/kernel"])
    slot = "dnn/hiddenlayer_0/kernel/Adagrad"
    _, entries = report(new)
    assert entries[slot]["status"] == ("restored" if mode.startswith("all") else "new")
    assert entries["global_step"]["status"] == ("restored" if mode == "all" else "new")
    grown = after[slot] - before[slot]
    assert (grown >= -1e-6).all() == mode.startswith("all")


@pytest.mark.ci
def test_all_needs_steps_beyond_those_of_the_source(config, old):
    new = config("new", warm_start_from=old.model_dir, warm_start_mode="all", max_steps=6)
    with pytest.raises(ek.ConfigError) as error:
        ek.run(new)
    assert str(error.value) == (
        f"--warm_start_mode=all takes over step 6 from {old.model_dir}/model.ckpt-6, but "
        "--max_steps=6 is not above it. Raise --max_steps, or use --warm_start_mode=all_but_step."
    )
    epochs = new.model_copy(update={"max_steps": None, "epochs": 2})
    result = ek.run(epochs)
    assert (result.global_step, result.rows_trained) == (10, 200)


@pytest.mark.ci
def test_a_restart_does_not_start_again(config, old):
    new = config("new", warm_start_from=old.model_dir, rate=0.1, max_steps=3)
    whole = config("whole", warm_start_from=old.model_dir, rate=0.1, max_steps=5)
    ek.run(whole)
    ek.run(new)
    shutil.rmtree(old.model_dir)
    ek.run(new.model_copy(update={"max_steps": 5}))
    expected = variables(whole.model_dir)
    for name, value in variables(new.model_dir).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_the_first_checkpoint_is_the_source_and_the_graph_does_not_know_it(config, old):
    new = config("new", warm_start_from=old.model_dir, save_checkpoints_steps=1)
    ek.run(new)
    first = tf.train.load_variable(f"{new.model_dir}/model.ckpt-0", TABLE)
    np.testing.assert_array_equal(first, variables(old.model_dir)[TABLE])
    paths = glob.glob(f"{new.model_dir}/events.out.tfevents.*")
    events = [event for path in paths for event in tf.compat.v1.train.summary_iterator(path)]
    graphs = [event.graph_def for event in events if event.graph_def]
    assert graphs and not any(old.model_dir.encode() in graph for graph in graphs)


@pytest.mark.ci
def test_renamed_variables_and_their_slots(config, old):
    new = config(
        "new", warm_start_from=old.model_dir, warm_start_mode="all_but_step",
        model="tests.integration.test_warm_start:Tower", warm_start_vars="tower/.*",
        model_params={"learning_rate": 1e-9},
        warm_start_rename=(r"dnn/hiddenlayer_(\d)/(kernel|bias)=tower/layer_\1/\2",),
    )  # fmt: skip
    ek.run(new)
    before, after = variables(old.model_dir), variables(new.model_dir)
    close(after["tower/layer_0/kernel"], before["dnn/hiddenlayer_0/kernel"])
    kept, entries = report(new)
    assert entries["tower/layer_0/kernel/Adagrad"] == {
        "name": "tower/layer_0/kernel/Adagrad", "status": "restored",
        "source": "dnn/hiddenlayer_0/kernel/Adagrad",
    }  # fmt: skip
    assert "dnn/logits/kernel" in kept["unused"]
    for rename, message in {
        "dn/(.*)=x": "--warm_start_rename=dn/(.*)=x: 'dn/(.*)' matches none of the source's",
        "dnn/(.*)=x": "of the source both become x",
        "dnn/(.*)=x/\\1": "expected names of the model's variables, got x/hiddenlayer_0/bias, ",
        "dnn/(.*)=\\2": "invalid group reference 2",
    }.items():
        with pytest.raises(ek.ConfigError) as error:
            ek.run(new.model_copy(update={"warm_start_rename": (rename,), "model_dir": "x"}))
        assert message in str(error.value)


class Tower(ek.ModelFn):
    """The deep part of `wide_deep` under other names."""

    def logits(self, features, mode):
        with tf.compat.v1.variable_scope("dnn"):
            inputs = self.dense_input(features, "deep")
        with tf.compat.v1.variable_scope("tower"):
            hidden = ek.dense_layer(inputs, 4, "layer_0", tf.nn.relu)
        return ek.dense_layer(hidden, self.logits_dimension, "last")


class Normalized(ek.ModelFn):
    """Has a moving mean in addition to its weights."""

    def logits(self, features, mode):
        inputs = self.dense_input(features, "deep")
        mean = tf.compat.v1.get_variable(
            "mean", inputs.shape[1:], trainable=False, initializer=tf.zeros_initializer()
        )
        if mode == "train":
            update = mean.assign(0.9 * mean + 0.1 * tf.reduce_mean(inputs, axis=0))
            tf.compat.v1.add_to_collection(tf.compat.v1.GraphKeys.UPDATE_OPS, update)
        return ek.dense_layer(inputs - mean, self.logits_dimension, "logits")


@pytest.mark.parametrize(
    ("mode", "taken"),
    [
        pytest.param("weights", False, marks=pytest.mark.nightly),
        pytest.param("weights_and_stats", True, marks=pytest.mark.ci),
    ],
)
def test_what_layers_keep_beside_weights(config, mode, taken):
    model = {"model": "tests.integration.test_warm_start:Normalized"}
    params = {"model_params": {"learning_rate": 1e-9}}
    old = config("old", max_steps=30, **model, **params)
    ek.run(old)
    new = config("new", **model, **params, warm_start_from=old.model_dir, warm_start_mode=mode)
    ek.run(new)
    before, after = variables(old.model_dir)["mean"], variables(new.model_dir)["mean"]
    np.testing.assert_array_equal(np.abs(after - before).max() < 0.2, taken)
    assert report(new)[1]["mean"]["status"] == ("restored" if taken else "new")


def test_another_optimizer_has_not_the_slots(config, old):
    new = config(
        "new", warm_start_from=old.model_dir, warm_start_mode="all_but_step", optimizer="adam"
    )
    with pytest.raises(ek.CheckpointError) as error:
        ek.run(new)
    assert "  dnn/logits/bias/Adam: not in the source\n" in str(error.value)
    *_, remedy = str(error.value).splitlines()
    assert re.fullmatch(
        r"Use --warm_start_vars to take only variables that fit(, as in --warm_start_vars='.*')?, "
        r"or --warm_start_mode=weights_and_stats, which takes no slots\.",
        remedy,
    )


def test_what_is_used_otherwise_is_said(config, old, document, caplog):
    document["features"]["price"]["default"] = 2.0
    document["columns"]["price"]["normalizer"] = {"clip": {"min": 0, "max": 1}}
    document["columns"]["city_emb"]["combiner"] = "sum"
    new = config("new", warm_start_from=old.model_dir, model="dnn", model_params={
        "hidden_units": [4], "learning_rate": 1e-9, "activation": "tanh",
    })  # fmt: skip
    with caplog.at_level("WARNING", "estimator_kit"):
        ek.run(new)
    assert (
        "warm start: the column price means something else than in the source, and it feeds dense "
        "layers directly. Their weights still have the old meaning."
    ) in caplog.messages
    start = "warm start: the model uses its variables in another way: "
    assert [text.removeprefix(start) for text in caplog.messages if text.startswith(start)] == [
        "features.price.default: was 0.0, is 2.0",
        "columns.city_emb.combiner: was 'mean', is 'sum'",
        'activation: was "relu", is "tanh"',
    ]


@pytest.mark.ci
def test_a_column_that_the_model_does_not_read_is_not_said(config, old, document, caplog):
    document["columns"]["city"]["list"] = [*reversed(document["columns"]["city"]["list"])]
    with caplog.at_level("WARNING", "estimator_kit"):
        ek.run(config("new", warm_start_from=old.model_dir, model="dnn", model_params={
            "hidden_units": [4], "learning_rate": 1e-9,
        }))  # fmt: skip
    assert not [message for message in caplog.messages if message.startswith("warm start: ")]


def test_objectives_in_another_order_are_another_model(config, old, document):
    document["objectives"] = dict(reversed(document["objectives"].items()))
    with pytest.raises(ek.CheckpointError) as error:
        ek.run(config("again", model_dir=old.model_dir, max_steps=9))
    assert '  objectives: was ["kind", "click"], is ["click", "kind"]\n' in str(error.value)


def add_tags(document):
    """Adds a column at the start of both groups, and drops a column from the deep group."""
    document["columns"]["tag"] = {"hash_bucket": "tags", "size": 10}
    document["columns"]["a_tag"] = {"embedding": "tag", "dimension": 2, "combiner": "sum"}
    document["groups"]["deep"] = ["a_tag", "city_emb", "user_emb"]
    document["groups"]["wide"].insert(0, "tag")
    document["ignored"] = []


def test_columns_that_are_added_and_dropped_need_no_pattern(config, old, document, caplog):
    """This is the most common change of a model. The other columns keep their weights."""
    add_tags(document)
    new = config("new", warm_start_from=old.model_dir, warm_start_mode="all_but_step")
    with caplog.at_level("INFO", "estimator_kit"):
        ek.run(new)
    before, after = variables(old.model_dir), variables(new.model_dir)
    kernel, width = "dnn/hiddenlayer_0/kernel", document["columns"]["user_emb"]["dimension"]
    # In the order of the names of their tables: city, price, user before; city, tags, user now.
    close(after[kernel][:2], before[kernel][:2])
    close(after[kernel][4:], before[kernel][3:])
    assert after[kernel].shape == (4 + width, 4) and np.abs(after[kernel][2:4]).min() > 0
    slot = kernel + "/Adagrad"
    assert (after[slot][[0, 1, *range(4, 4 + width)]] >= before[slot][[0, 1, *range(3, 3 + width)]]
            - 1e-6).all()  # fmt: skip
    assert after[slot][2:4].max() < 0.11  # New rows start at their initial values.
    _, entries = report(new)
    inputs = {"kept": 2 + width, "new": 2, "dropped": 1}
    assert entries[kernel] == {"name": kernel, "status": "remapped", "inputs": inputs}
    for name in (TABLE.replace("city", "tags"), LINEAR.replace("city", "tags")):
        assert entries[name]["status"] == "new"
    assert entries[TABLE]["status"] == "restored"
    assert f"{kernel} (inputs {2 + width} kept, 2 new, 1 dropped)" in caplog.text


@pytest.fixture
def fields(config, document):
    """The config of a trained model that pairs fields. `a` and `b` have the same shape."""
    for name in "ab":
        document["columns"][name] = {"embedding": "city", "dimension": 2}
    document["columns"]["b"]["embedding"] = "user"
    del document["columns"]["city_emb"], document["columns"]["user_emb"]
    document["groups"].update(fields=["a", "b"], deep=["a"])
    params = {"hidden_units": [4], "maps": [3, 2], "learning_rate": 0.1}
    run = config("fields", model="xdeepfm", model_params=params, max_steps=6)
    ek.run(run)
    return run


@pytest.mark.nightly  # test_input_places.py has the rule.
def test_the_order_of_columns_is_part_of_what_a_checkpoint_means(config, fields, document):
    """TensorFlow restores each of these without an error, but the predictions mean nothing."""
    evaluate = {"mode": "evaluate", "eval_files": fields.train_files, "max_steps": None}
    expected = ek.run(fields.model_copy(update=evaluate)).metrics
    for change, difference in {
        ("fields", ("b", "a")): "  cin/cin_0/kernel: its rows belonged to a*a, a*b, b*a, b*b; now "
                                "to b*b, b*a, a*b, a*a\n",
        ("deep", ("b",)): "  dnn/hiddenlayer_0/kernel: its rows belonged to a; now to b\n",
    }.items():  # fmt: skip
        kept = dict(document["groups"])
        document["groups"][change[0]] = list(change[1])
        same = {
            "model": "xdeepfm", "model_params": fields.model_params,
            "model_dir": fields.model_dir,
        }  # fmt: skip
        for start in ({**evaluate, **same}, {"max_steps": 9, **same}):
            with pytest.raises(ek.CheckpointError) as error:
                ek.run(config("changed", **start))
            assert difference in str(error.value)
            assert str(error.value).endswith("go back to the old spec.")
        document["groups"] = kept

    document["groups"]["fields"] = ["b", "a"]
    model = {"model": "xdeepfm", "model_params": {**fields.model_params, "learning_rate": 1e-9}}
    ek.run(config("moved", **model, warm_start_from=fields.model_dir))
    found = ek.run(
        config("moved", **model, mode="evaluate", eval_files=fields.train_files, max_steps=None)
    )
    assert found.metrics["loss"] == pytest.approx(expected["loss"], abs=1e-5)


def test_a_source_without_a_record_of_its_columns_is_refused_when_they_changed(
    config, fields, document
):
    """An earlier version of the kit may have trained it."""
    (record,) = Path(fields.model_dir).glob("feature_spec/places.json")
    record.unlink()
    document["groups"]["fields"] = ["b", "a"]
    model = {"model": "xdeepfm", "model_params": fields.model_params}
    with pytest.raises(ek.CheckpointError) as error:
        ek.run(config("again", **model, model_dir=fields.model_dir, max_steps=9))
    assert "  groups.fields: was a, b, is b, a\n" in str(error.value)
    with pytest.raises(ek.CheckpointError) as error:
        ek.run(config("new", **model, warm_start_from=fields.model_dir))
    assert (
        "  cin/cin_0/kernel: it means something else: the source has no record of which "
        "column its rows belong to, and groups.fields: was a, b, is b, a\n"
    ) in str(error.value)
