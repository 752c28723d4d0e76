"""TPUEstimator on a CPU, and the names of `tensorflow.python.tpu` that old programs use.

Tests without a mark also run with TensorFlow 2.15, whose own code then is the reference.
"""

import contextlib
import importlib
import sys
import threading

import numpy as np
import pytest

import estimator_kit.compat as compat  # isort: skip  # before TensorFlow: which Keras
import tensorflow as tf

from estimator_kit.compat import tpu, versions
from tests.estimator_kit.compat.support import run_code

later = pytest.mark.skipif(
    versions.read().has_own_estimator, reason="TensorFlow 2.15 has these names itself"
)

v1 = tf.compat.v1
PREDICT, TRAIN = "infer", "train"

X = np.array([[1.0, 2.0], [3.0, -1.0]], np.float32)
Y = np.array([[1.0], [2.0]], np.float32)
RATE = 0.1


def input_fn(params):
    assert params["batch_size"] == 2
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(2, drop_remainder=True).repeat()


def predict_input_fn(params):
    return tf.data.Dataset.from_tensor_slices({"x": X}).batch(params["batch_size"])


def linear_model(host_steps):
    """A model_fn of y = x * w, with w = 0 at first; each step is added to `host_steps`."""

    def host_call(step):
        return v1.py_func(lambda value: host_steps.append(int(value[0])), [step], [])

    def metrics(labels, outputs):
        return {"error": v1.metrics.mean_squared_error(labels, outputs)}

    def model_fn(features, labels, mode, params):
        w = v1.get_variable("w", [2, 1], initializer=v1.zeros_initializer())
        outputs = tf.matmul(features["x"], w)
        if mode == PREDICT:
            exported = tf.estimator.export.PredictOutput({"y": outputs})
            return v1.estimator.tpu.TPUEstimatorSpec(
                mode, predictions={"y": outputs}, export_outputs={"serving_default": exported}
            )
        loss = tf.reduce_mean(tf.square(outputs - labels))
        step = v1.train.get_global_step()
        train_op = v1.train.GradientDescentOptimizer(RATE).minimize(loss, step)
        return v1.estimator.tpu.TPUEstimatorSpec(
            mode,
            loss=loss,
            train_op=train_op if mode == TRAIN else None,
            eval_metrics=(metrics, [labels, outputs]),
            host_call=(host_call, [tf.reshape(step, [1])]) if mode == TRAIN else None,
        )

    return model_fn


def estimator(folder, model_fn, **changes):
    settings = {
        "use_tpu": False, "train_batch_size": 2, "eval_batch_size": 2, "predict_batch_size": 2,
        **changes,
    }  # fmt: skip
    config = v1.estimator.tpu.RunConfig(
        model_dir=str(folder),
        tf_random_seed=1,
        tpu_config=v1.estimator.tpu.TPUConfig(iterations_per_loop=1),
    )
    return v1.estimator.tpu.TPUEstimator(model_fn, config=config, **settings)


def weights_after(steps):
    w = np.zeros([2, 1], np.float32)
    for _ in range(steps):
        w -= RATE * X.T @ (2 * (X @ w - Y)) / len(X)
    return w


def receiver():
    x = v1.placeholder(tf.float32, [None, 2])
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


def test_tpu_estimator_trains_evaluates_predicts_and_exports(tmp_path):
    steps = []
    model = estimator(tmp_path / "model", linear_model(steps))
    assert isinstance(model, v1.estimator.Estimator)
    model.train(input_fn, steps=3)
    assert len(steps) == 3
    w = weights_after(3)
    np.testing.assert_allclose(model.get_variable_value("w"), w, rtol=1e-6)

    result = model.evaluate(input_fn, steps=1)
    error = np.mean((X @ w - Y) ** 2)
    np.testing.assert_allclose([result["error"], result["loss"]], [error, error], rtol=1e-5)
    assert result["global_step"] == 3

    predicted = [each["y"] for each in model.predict(predict_input_fn)]
    np.testing.assert_allclose(predicted, X @ w, rtol=1e-6)

    # The export for TPUs needs none to be written, but ops of a TPU model.
    on_cpu = estimator(tmp_path / "model", linear_model([]), export_to_tpu=False)
    folder = on_cpu.export_saved_model(str(tmp_path / "export"), receiver)
    with tf.Graph().as_default(), v1.Session() as session:
        loaded = v1.saved_model.load(session, ["serve"], folder)
        signature = loaded.signature_def["serving_default"]
        served = session.run(signature.outputs["y"].name, {signature.inputs["x"].name: X})
    np.testing.assert_allclose(served, X @ w, rtol=1e-6)


def test_a_subclass_of_tpu_estimator_works(tmp_path):
    # tensorflow-estimator lets a class of this name override methods; adanet's does.
    class TPUEstimator(v1.estimator.tpu.TPUEstimator):
        def __init__(self, folder):
            config = v1.estimator.tpu.RunConfig(model_dir=str(folder))
            super().__init__(linear_model([]), config=config, use_tpu=False, train_batch_size=2)

        def train(self, input_fn, steps):
            return super().train(input_fn, steps=steps)

    model = TPUEstimator(tmp_path)
    assert isinstance(model, v1.estimator.tpu.TPUEstimator)
    model.train(input_fn, steps=1)
    np.testing.assert_allclose(model.get_variable_value("w"), weights_after(1), rtol=1e-6)


def test_embeddings_for_tpus_train_on_a_cpu(tmp_path):
    column = v1.tpu.experimental.embedding_column(
        tf.feature_column.categorical_column_with_identity("id", 3),
        dimension=2,
        initializer=v1.ones_initializer(),
    )
    spec = v1.estimator.tpu.experimental.EmbeddingConfigSpec(
        feature_columns=[column],
        optimization_parameters=v1.tpu.experimental.AdagradParameters(RATE),
    )

    def model_fn(features, labels, mode, params):
        loss = tf.reduce_sum(v1.feature_column.input_layer(features, [column]))
        train_op = v1.train.GradientDescentOptimizer(RATE).minimize(
            loss, v1.train.get_global_step()
        )
        return v1.estimator.tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    def ids(params):
        return tf.data.Dataset.from_tensor_slices(({"id": [0, 2]}, [0.0, 0.0])).batch(2)

    model = estimator(tmp_path, model_fn, embedding_config_spec=spec)
    model.train(ids, steps=1)
    (name,) = (name for name in model.get_variable_names() if "embedding_weights" in name)
    # The gradient of a sum is 1, and the optimizer is the model_fn's, not Adagrad.
    expected = [[0.9, 0.9], [1.0, 1.0], [0.9, 0.9]]
    np.testing.assert_allclose(model.get_variable_value(name), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("tpu_estimator", "TPUEstimator"),
        ("tpu_estimator", "TPUEstimatorSpec"),
        ("tpu_config", "TPUConfig"),
        ("tpu_config", "RunConfig"),
        ("tpu_context", "TPUContext"),
        ("error_handling", "ErrorRendezvous"),
        ("util", "check_positive_integer"),
    ],
)
def test_an_old_path_leads_to_the_same_class(module, name):
    old = importlib.import_module(f"tensorflow.python.tpu.{module}")
    now = importlib.import_module(f"tensorflow_estimator.python.estimator.tpu.{module}")
    assert getattr(old, name) is getattr(now, name)
    assert getattr(v1.estimator.tpu, name, getattr(now, name)) is getattr(now, name)


COMMON = {
    "learning_rate": 0.5,
    "use_gradient_accumulation": True,
    "clip_weight_min": None,
    "clip_weight_max": None,
    "weight_decay_factor": None,
    "multiply_weight_decay_factor_by_learning_rate": None,
    "clip_gradient_min": None,
    "clip_gradient_max": None,
}

# The attributes in TensorFlow 2.15.1 of an object that is made with learning_rate=0.5.
DEFAULTS = {
    "StochasticGradientDescentParameters": COMMON,
    "AdagradParameters": {**COMMON, "initial_accumulator": 0.1},
    "AdamParameters": {
        **COMMON,
        "beta1": 0.9,
        "beta2": 0.999,
        "epsilon": 1e-8,
        "lazy_adam": True,
        "sum_inside_sqrt": True,
    },
    "FtrlParameters": {
        **COMMON,
        "learning_rate_power": -0.5,
        "initial_accumulator_value": 0.1,
        "initial_linear_value": 0.0,
        "l1_regularization_strength": 0.0,
        "l2_regularization_strength": 0.0,
        "multiply_linear_by_learning_rate": False,
        "beta": 0,
        "allow_zero_accumulator": False,
    },
}

# The arguments in their order.
_WEIGHTS = (
    "use_gradient_accumulation clip_weight_min clip_weight_max weight_decay_factor "
    "multiply_weight_decay_factor_by_learning_rate"
)
_GRADIENTS = "clip_gradient_min clip_gradient_max"
ORDER = {
    "StochasticGradientDescentParameters": f"learning_rate {_WEIGHTS} {_GRADIENTS}",
    "AdagradParameters": f"learning_rate initial_accumulator {_WEIGHTS} {_GRADIENTS}",
    "AdamParameters": (
        f"learning_rate beta1 beta2 epsilon lazy_adam sum_inside_sqrt {_WEIGHTS} {_GRADIENTS}"
    ),
    "FtrlParameters": (
        "learning_rate learning_rate_power initial_accumulator_value "
        f"l1_regularization_strength l2_regularization_strength {_WEIGHTS} "
        f"multiply_linear_by_learning_rate beta allow_zero_accumulator {_GRADIENTS}"
    ),
}

# Other values than the defaults, all within the limits.
OTHERS = {
    "learning_rate": 0.25, "initial_accumulator": 2.0, "beta1": 0.0, "beta2": 0.5, "epsilon": 0.1,
    "lazy_adam": False, "sum_inside_sqrt": False, "learning_rate_power": 0.0,
    "initial_accumulator_value": 0.0, "l1_regularization_strength": 1.0,
    "l2_regularization_strength": 2.0, "use_gradient_accumulation": True, "clip_weight_min": -1.0,
    "clip_weight_max": 1.0, "weight_decay_factor": 0.01,
    "multiply_weight_decay_factor_by_learning_rate": True, "clip_gradient_min": -5.0,
    "clip_gradient_max": 5.0, "multiply_linear_by_learning_rate": True, "beta": 0.3,
    "allow_zero_accumulator": True,
}  # fmt: skip


def parameters(name):
    return getattr(v1.tpu.experimental, name)


@pytest.mark.parametrize("name", list(DEFAULTS))
def test_embedding_parameters_have_their_defaults_and_order(name):
    assert vars(parameters(name)(0.5)) == DEFAULTS[name]
    order = ORDER[name].split()
    made = parameters(name)(*(OTHERS[field] for field in order))
    changed = {field: OTHERS[field] for field in order}
    assert vars(made) == {**DEFAULTS[name], **changed}
    assert made != parameters(name)(*(OTHERS[field] for field in order))
    module = importlib.import_module("tensorflow.python.tpu.tpu_embedding")
    assert getattr(module, name) is parameters(name)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("AdagradParameters", {"initial_accumulator": 0}, "a number above 0, got 0"),
        ("AdamParameters", {"beta1": 1.0}, "0 or more, and less than 1, got 1.0"),
        ("AdamParameters", {"beta1": -0.1}, "0 or more, and less than 1, got -0.1"),
        ("AdamParameters", {"beta2": 1.0}, "0 or more, and less than 1, got 1.0"),
        ("AdamParameters", {"epsilon": 0}, "a number above 0, got 0"),
        (
            "AdamParameters",
            {"use_gradient_accumulation": False, "lazy_adam": False},
            "True, because lazy_adam is False, got False",
        ),
        ("FtrlParameters", {"learning_rate_power": 0.1}, "0 or less, got 0.1"),
        ("FtrlParameters", {"initial_accumulator_value": -1}, "0 or more, got -1"),
        ("FtrlParameters", {"l1_regularization_strength": -1}, "0 or more, got -1"),
        ("FtrlParameters", {"l2_regularization_strength": -1}, "0 or more, got -1"),
        (
            "StochasticGradientDescentParameters",
            {"use_gradient_accumulation": False, "clip_gradient_max": 1.0},
            "True, because clip_gradient_min or clip_gradient_max is set, got False",
        ),
    ],
)
def test_embedding_parameters_have_their_limits(name, arguments, message):
    with pytest.raises(ValueError) as error:
        parameters(name)(0.5, **arguments)
    if not versions.read().has_own_estimator:
        field = next(iter(arguments))
        assert str(error.value) == f"{name}: {field}: expected {message}."


def configs():
    return importlib.import_module("tensorflow.python.tpu.tpu_embedding")


def test_embedding_configs_have_their_defaults():
    table = configs().TableConfig(10, 4)
    assert table[:2] == (10, 4) and table[3:] == ("mean", False, None, None, None)
    assert (table.initializer.mean, table.initializer.stddev) == (0.0, 0.5)
    adagrad = parameters("AdagradParameters")(0.5)
    given = (10, 4, len, None, True, 0.1, None, adagrad)
    assert configs().TableConfig(*given) == given
    assert configs().FeatureConfig("table") == ("table", 0, None)
    assert configs().FeatureConfig("table", 3, "weight") == ("table", 3, "weight")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("TableConfig", (0, 4), "TableConfig: vocabulary_size: expected 1 or more, got 0."),
        ("TableConfig", (3, 0.5), "TableConfig: dimension: expected 1 or more, got 0.5."),
        (
            "TableConfig",
            (3, 4, "zeros"),
            "TableConfig: initializer: expected a callable or None, got 'zeros'.",
        ),
        (
            "TableConfig",
            (3, 4, None, "max"),
            "TableConfig: combiner: expected mean, sum, sqrtn or None, got 'max'.",
        ),
        (
            "TableConfig",
            (3, 4, None, "mean", False, 0.1, len),
            "TableConfig: expected learning_rate or learning_rate_fn, got both. Remove one.",
        ),
        (
            "TableConfig",
            (3, 4, None, "mean", False, None, None, 0.1),
            "TableConfig: optimization_parameters: expected an object such as "
            "AdagradParameters, got 0.1.",
        ),
        (
            "FeatureConfig",
            ("table", -1),
            "FeatureConfig: max_sequence_length: expected 0 or more, got -1.",
        ),
    ],
)
def test_embedding_configs_have_their_limits(name, arguments, message):
    with pytest.raises(ValueError) as error:
        getattr(configs(), name)(*arguments)
    if not versions.read().has_own_estimator:
        assert str(error.value) == message


@later
def test_what_needs_a_tpu_is_one_error(tmp_path):
    model = estimator(tmp_path, linear_model([]), use_tpu=True)
    start = (
        "TPUEstimator: use_tpu=True: found no TPU. Set use_tpu=False to use CPUs and GPUs. For "
        "TPUs, stay on TensorFlow 2.15. The error of TensorFlow: RuntimeError: Cannot find any TPU "
    )
    for use in (
        lambda: model.train(input_fn, steps=1),
        lambda: model.evaluate(input_fn, steps=1),
        lambda: next(model.predict(predict_input_fn)),
    ):
        with pytest.raises(compat.UnsupportedTensorFlowError) as error:
            use()
        assert str(error.value).startswith(start)


def test_an_error_of_the_settings_is_not_about_tpus(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="`train_batch_size` cannot be `None`"):
        estimator(tmp_path, linear_model([]), use_tpu=True, train_batch_size=None)

    from tensorflow.python.tpu import tpu_system_metadata

    eight = tpu_system_metadata.TPUSystemMetadata(8, 1, 8, None, [])
    monkeypatch.setattr(
        tpu_system_metadata, "_query_tpu_system_metadata", lambda *args, **kwargs: eight
    )
    model = estimator(tmp_path, linear_model([]), use_tpu=True)
    with pytest.raises(ValueError, match=r"train batch size 2 must be divisible by .* 8"):
        model.train(input_fn, steps=1)


def test_what_needs_no_tpu_works_with_use_tpu(tmp_path):
    estimator(tmp_path / "model", linear_model([])).train(input_fn, steps=1)
    model = estimator(
        tmp_path / "model", linear_model([]), use_tpu=True, eval_on_tpu=False, export_to_tpu=False
    )
    expected = np.mean((X @ weights_after(1) - Y) ** 2)
    assert model.evaluate(input_fn, steps=1)["error"] == pytest.approx(expected, rel=1e-5)
    assert model.export_saved_model(str(tmp_path / "export"), receiver)


@later
@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("tpu_embedding", "TPUEmbedding"),
        ("session_support", "GracefulShutdownHook"),
        ("tpu_embedding_gradient", "create_dummy_table_variables"),
    ],
)
def test_what_only_tpus_use_is_an_error_when_it_is_made(module, name):
    path = f"tensorflow.python.tpu.{module}"
    found = getattr(importlib.import_module(path), name)

    class Mine(found):
        pass

    for make in (found, Mine):
        with pytest.raises(compat.UnsupportedTensorFlowError) as error:
            make("anything", mode=1)
        assert str(error.value) == (
            f"{path}.{name}: TensorFlow removed this part for TPUs after 2.15. TPUEstimator works "
            "on CPUs and GPUs with use_tpu=False. For TPUs, stay on TensorFlow 2.15."
        )


class SlowSaver:
    """A saver that waits for `gate`, and keeps the steps that it has written.

    TensorFlow's saver is given by composition: hooks ask it for its saver_def.
    """

    def __init__(self, error=None):
        self._saver, self._error = v1.train.Saver(), error
        self.gate, self.steps = threading.Event(), []
        self.saver_def = self._saver.saver_def

    def save(self, session, path, global_step, **kwargs):
        assert self.gate.wait(60)
        if self._error:
            raise self._error
        self.steps.append(int(global_step))
        return self._saver.save(session, path, global_step=global_step, **kwargs)


@contextlib.contextmanager
def hook_in_session(folder, error=None):
    """An AsyncCheckpointSaverHook that has begun, its saver, and a function that trains a step."""
    from tensorflow.python.tpu.async_checkpoint import AsyncCheckpointSaverHook

    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        add = v1.assign_add(step, 1)
        saver = SlowSaver(error)
        hook = AsyncCheckpointSaverHook(str(folder), save_steps=1, saver=saver)
        hook.begin()
        session.run(v1.global_variables_initializer())

        def train():
            context = v1.train.SessionRunContext(None, session)
            values = v1.train.SessionRunValues(session.run(add) - 1, None, None)
            hook.after_run(context, values)

        hook.after_create_session(session, None)
        yield hook, saver, train, session


@later  # 2.15's own hook fails unless eager execution is disabled.
def test_checkpoints_are_written_while_training_goes_on(tmp_path):
    with hook_in_session(tmp_path) as (hook, saver, train, session):
        assert isinstance(hook, tf.estimator.CheckpointSaverHook)
        train()
        train()
        assert saver.steps == []  # Step 0 is still being written, so 1 and 2 are skipped.
        saver.gate.set()
        hook.end(session)
    assert saver.steps == [0, 2]
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-2")


@later  # 2.15's own hook fails unless eager execution is disabled.
def test_the_last_step_is_not_written_twice(tmp_path):
    with hook_in_session(tmp_path) as (hook, saver, _, session):
        saver.gate.set()
        hook.end(session)
    assert saver.steps == [0]


@later
def test_an_error_of_the_thread_ends_training(tmp_path):
    full = OSError("no space left")
    with hook_in_session(tmp_path, full) as (hook, saver, _, session):
        saver.gate.set()
        with pytest.raises(OSError, match="no space left"):
            hook.end(session)


@later  # 2.15's own hook fails unless eager execution is disabled.
def test_tpu_estimator_trains_with_such_a_hook(tmp_path):
    from tensorflow.python.tpu.async_checkpoint import AsyncCheckpointSaverHook

    hook = AsyncCheckpointSaverHook(str(tmp_path), save_steps=100)
    model = estimator(tmp_path, linear_model([]))
    model.train(input_fn, steps=2, hooks=[hook])
    assert model.latest_checkpoint() == str(tmp_path / "model.ckpt-2")
    np.testing.assert_allclose(model.get_variable_value("w"), weights_after(2), rtol=1e-6)


@later
def test_a_failed_installation_takes_the_tpu_names_away():
    package = importlib.import_module("tensorflow.python.tpu")
    context = importlib.import_module("tensorflow_estimator.python.estimator.tpu.tpu_context")
    api = v1.tpu.experimental
    names = {*tpu.removed_modules.MODULES, *tpu.old_paths.MODULES}
    paths = {f"{package.__name__}.{name}" for name in names}
    classes = tpu.embedding_parameters.NAMES
    before = context._InternalTPUContext.is_running_on_cpu

    kept = {path: sys.modules.pop(path) for path in paths}
    settings = {name: getattr(api, name) for name in classes}
    for name in names:
        delattr(package, name)
    for name in classes:
        delattr(api, name)
    try:
        with contextlib.ExitStack() as undo:
            tpu.install_before_estimator(undo)
            tpu.install_after_estimator(undo)
            assert paths <= set(sys.modules) and names <= set(vars(package))
            assert all(hasattr(api, name) for name in classes)
            assert context._InternalTPUContext.is_running_on_cpu is not before
        assert not paths & set(sys.modules) and not names & set(vars(package))
        assert not any(hasattr(api, name) for name in classes)
        assert context._InternalTPUContext.is_running_on_cpu is before
    finally:
        sys.modules.update(kept)
        for path, module in kept.items():
            setattr(package, path.rpartition(".")[2], module)
        for name, value in settings.items():
            setattr(api, name, value)


@pytest.mark.nightly
@later
def test_a_tensorflow_without_code_for_tpus_has_the_rest_of_tf_estimator():
    out = run_code(
        """
        from tensorflow.python.tpu import tpu_feed
        del tpu_feed.InfeedQueue
        import estimator_kit.compat as compat
        import tensorflow as tf
        tpu = tf.compat.v1.estimator.tpu
        try:
            tpu.TPUEstimator(model_fn=None, use_tpu=False)
        except compat.UnsupportedTensorFlowError as error:
            print(error)
        assert tpu.TPUConfig(iterations_per_loop=2).iterations_per_loop == 2
        assert tf.estimator.DNNClassifier
        """
    )
    assert out == (
        "tensorflow_estimator.python.estimator.tpu.tpu_estimator.TPUEstimator: this TensorFlow "
        "cannot run TPUEstimator: tensorflow.python.tpu.tpu_feed.InfeedQueue is missing: the input "
        "queue of a TPU. Use tf.estimator.Estimator, or an older TensorFlow."
    )
