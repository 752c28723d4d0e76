"""What each parameter of each built-in model changes is what it declares.

A parameter that does not declare `weights` changes no logit of given variables. So a checkpoint may
go on with another value. A changed parameter that declares `weights`, and keeps all shapes, changes
them, or the declaration is too strict.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.checkpoints import run_record
from estimator_kit.errors import CheckpointError, ConfigError
from estimator_kit.model.model_params import changes_of
from estimator_kit.models import MODELS
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conformance import table

# Another value of each parameter. Groups are in `named`: they only name columns.
OTHER = {
    "accumulate": 2, "activation": "tanh", "attention_activation": "tanh", "attention_dimension": 2,
    "attention_layers": 1, "attention_units": [3], "auxiliary_weight": 0.5, "batch_norm": True,
    "batch_norm_momentum": 0.5, "blocks": 3, "calibrator": 0.1, "clip_norm": 1.0, "clip_value": 1.0,
    "combine": "uncertainty", "crosses": 1, "dimension": 3, "dropout": 0.5, "experts": 3,
    "feed_forward": 5, "forward_features": [], "freeze": [], "frequency_rate": 0.5, "heads": 4,
    "hidden_units": [5, 5], "initializer": "he_uniform", "item_bias": False, "item_id": None,
    "layer_norm": True, "learning_rate": 0.001, "levels": 3, "linear_learning_rate": 0.001,
    "linear_optimizer": "sgd", "maps": [2, 2], "max_steps": 4, "moving_average": 0.5,
    "normalize": False, "optimizer": "sgd", "optimizers": {"": "sgd"}, "own_experts": 2,
    "pooling": "max", "rank": 3, "recall_at": [1], "recurrent_units": [2],
    "regularizer": {"l1": 0.1}, "residual": True, "schedule": {"cosine": {"decay_steps": 10}},
    "shared_experts": 2,
    "softmax": True, "steps_dropout": 0.5, "structure": "stacked", "tasks": ["buy", "click"],
    "temperature": 0.5, "tied": False, "tower_units": [3], "user_id": "user", "warm_up_steps": 3,
    "width": 4,
}  # fmt: skip


def test_every_parameter_has_another_value_here():
    names = {name for model in MODELS.values() for name in model.Params.model_fields}
    assert {name for name in names if not name.endswith("group")} - {"group"} == set(OTHER)


def logits(name, params, spec, rows):
    """The logits of a prediction whose variables are filled by their names, and their shapes."""
    model = MODELS[name](spec, params)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.get_or_create_global_step()
        records = [writing.example(row).SerializeToString() for row in rows]
        features = Transform(spec).features(tf.constant(records))
        predictions = model(features, None, tf.estimator.ModeKeys.PREDICT).predictions
        variables = tf.compat.v1.global_variables()
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.tables_initializer())
        for variable in variables:
            if variable.dtype.base_dtype == tf.float32:
                seed = zlib.crc32(variable.op.name.encode())
                values = np.random.default_rng(seed).uniform(0.1, 0.6, variable.shape.as_list())
                variable.load(values.astype(np.float32), session)
        found = session.run({k: v for k, v in predictions.items() if v.dtype.is_floating})
    shapes = {v.op.name: tuple(v.shape.as_list()) for v in variables}
    return np.concatenate([found[key].reshape(len(rows), -1) for key in sorted(found)], 1), shapes


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.ci if name == "wide_deep" else pytest.mark.nightly)
        for name in MODELS
    ],
)
def test_what_a_parameter_changes_is_what_it_declares(name):
    case, kind = table.MODEL_CASES[name], MODELS[name].Params
    heads = case.objectives or {"binary": "binary", "multi_class": "multi_class"}
    whole = feature_specs.parse(table.document(heads, tuple(table.DOCUMENT["groups"])))
    groups = MODELS[name](whole, case.params).groups()
    spec = feature_specs.parse(table.document(heads, groups))
    rows = table.make_rows(12, heads)
    before, shapes = logits(name, case.params, spec, rows)
    assert np.abs(before).max() > 0
    silent = set()
    for parameter in kind.model_fields:
        if parameter not in OTHER:
            continue
        aspects, value = changes_of(kind, parameter), OTHER[parameter]
        if "weights" in aspects and parameter not in SILENT:
            continue  # Variables or shapes show it.
        try:
            after, now = logits(name, {**case.params, parameter: value}, spec, rows)
        except (ConfigError, tf.errors.InvalidArgumentError) as error:  # Such as one objective.
            assert "weights" in aspects or parameter == "combine", (parameter, error)
            continue
        same = now == shapes and np.allclose(after, before, atol=1e-6)
        if "weights" not in aspects:
            assert same, parameter
        elif now == shapes and not same:
            silent.add(parameter)
    assert silent <= SILENT


# They change the logits, and no shape shows it.
SILENT = {
    "activation", "attention_activation", "heads", "normalize", "pooling", "residual", "softmax",
    "temperature", "tasks",
}  # fmt: skip


def test_the_silent_parameters_are_refused_by_name(tmp_path):
    def check(name, now, was=()):
        lines = ["--model=x", *(f"--model_params={line}" for line in was), "--report=on"]
        (tmp_path / "flags.txt").write_text("\n".join(lines) + "\n")
        spec = feature_specs.parse(table.document({"binary": "binary"}, ("wide", "deep")))
        run_record.check_params(str(tmp_path), "Mine", MODELS[name](spec, now).params)

    check("wide_deep", {})
    check("wide_deep", {"activation": "relu", "dropout": 0.5, "learning_rate": 1.0})
    check("wide_deep", {"dropout": 0.1}, ["dropout=0.3", 'activation="relu"'])
    check("wide_deep", {"hidden_units": [4]}, ["hidden_units=[4]", "gone=3"])
    with pytest.raises(CheckpointError) as error:
        check("wide_deep", {"residual": True, "hidden_units": [4]},
              ['activation="tanh"', "moving_average=0.9", "hidden_units=[4]"])  # fmt: skip
    assert str(error.value).split("\n") == [
        f"the parameters of the model Mine differ from the parameters that {tmp_path} was trained "
        "with:",
        "  moving_average: was 0.9, is null",
        '  activation: was "tanh", is "relu"',
        "  residual: was false, is true",
        "With other values, the same variables give other answers. Go back to the old values with "
        "--model_params, or train into a new --model_dir (with --warm_start_from, to take "
        "these variables).",
    ]
    run_record.check_params(f"{tmp_path}/nowhere", "Mine", MODELS["linear"].Params())


def test_an_undeclared_parameter_of_a_user_counts_as_weights(tmp_path):
    import estimator_kit as ek

    class Params(ek.ModelParams):
        scale: float = 1.0
        noise: float = ek.parameter(0.1, changes="training", ge=0)
        learning_rate: float = 0.3  # Another default of a declared parameter.

    (tmp_path / "flags.txt").write_text(
        "--model_params=scale=2.0\n--model_params=noise=0.5\n--model_params=learning_rate=1.0\n"
    )
    run_record.check_params(str(tmp_path), "Mine", Params(scale=2.0, noise=0.3))
    with pytest.raises(CheckpointError, match=r"scale: was 2\.0, is 1\.0"):
        run_record.check_params(str(tmp_path), "Mine", Params(noise=0.5))
    with pytest.raises(ValueError, match="changes='train': expected 'nothing' or one or more of"):
        ek.parameter(0.1, changes="train")


def test_a_default_that_another_version_changed_is_refused(tmp_path):
    import estimator_kit as ek

    class Old(ek.ModelParams):
        activation: str = "relu"

    class New(Old):
        activation: str = "tanh"
        scale: float = 1.0  # Kept by no old start, so it contradicts nothing.

    run_record.write_params(str(tmp_path), Old())
    run_record.check_params(str(tmp_path), "Mine", New(activation="relu"))
    with pytest.raises(CheckpointError, match='activation: was "relu", is "tanh"'):
        run_record.check_params(str(tmp_path), "Mine", New())
