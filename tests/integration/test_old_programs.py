"""Programs and models that turn the behavior of TensorFlow 2 off train as all others do."""

import contextlib

import pytest
import tensorflow as tf

import estimator_kit as ek
from input_pipelines import eager
from tests.conftest import small_run, variables

_OLD = "tests.integration.old_model:OldModel"
_v1 = tf.compat.v1


class NewModel(ek.ModelFn):
    """`old_model.OldModel` with shapes of TensorFlow 2."""

    def logits(self, features, mode):
        inputs = self.dense_input(features, "deep")
        weights = _v1.get_variable("weights", [int(inputs.shape[1]), self.logits_dimension])
        return tf.matmul(inputs, weights)


@pytest.fixture(autouse=True)
def shapes_of_tensorflow_2(monkeypatch):
    monkeypatch.setattr(eager, "_has_old_shapes", False)


@pytest.fixture
def trained(ads, tmp_path):
    """Trains a model; returns the metrics and the variables."""

    def train(name, model):
        run = small_run(ads, tmp_path / name, model=model, max_steps=4)
        metrics = ek.run(run()).metrics
        return metrics, variables(tmp_path / name), run

    return train


@pytest.fixture
def new(trained):
    return trained("new", f"{__name__}:NewModel")


def _equal(ours, expected):
    assert ours[0] == pytest.approx(expected[0], abs=1e-6)
    assert ours[1].keys() == expected[1].keys()
    for name, values in expected[1].items():
        assert ours[1][name] == pytest.approx(values, abs=1e-6), name


@pytest.mark.nightly  # The next test also turns it off.
def test_a_module_turns_tensorflow_2_off(trained, new):
    old = trained("old", _OLD)
    _equal(old, new)
    # The next run, whose module was imported before, has shapes with a `value`, too.
    assert ek.run(old[2](mode="evaluate")).metrics == pytest.approx(old[0], abs=1e-6)
    assert tf.executing_eagerly() and _v1.resource_variables_enabled()
    assert _v1.control_flow_v2_enabled() and tf.TensorShape([3])[0] == 3


@pytest.mark.ci
@pytest.mark.parametrize(
    "start",
    [
        _v1.disable_v2_behavior,
        pytest.param(_v1.disable_eager_execution, marks=pytest.mark.nightly),
        pytest.param(None, marks=pytest.mark.nightly),
    ],
)
def test_a_program_turns_tensorflow_2_off_or_runs_in_a_graph(trained, new, start):
    with eager.kept(), contextlib.ExitStack() as stack:  # So the test process stays as it is.
        if start is None:
            graph = stack.enter_context(tf.Graph().as_default())
        else:
            start()
        all_off = start is _v1.disable_v2_behavior
        old = trained("program", _OLD if all_off else f"{__name__}:NewModel")
        assert ek.run(old[2](mode="evaluate")).metrics == pytest.approx(old[0], abs=1e-6)
        assert ek.run(old[2](mode="export")).exports["final"]
        assert not tf.executing_eagerly()
        assert start is not None or not graph.get_operations()
        assert _v1.resource_variables_enabled() != all_off
    _equal(old, new)


@pytest.mark.ci
@pytest.mark.parametrize(
    "start",
    [_v1.disable_v2_behavior, pytest.param(_v1.disable_eager_execution, marks=pytest.mark.nightly)],
)
def test_a_model_trains_in_the_programs_own_estimator(ads, tmp_path, start):
    spec = ek.load_spec(f"{ads}/spec.yaml")
    losses = []
    for begin in (lambda: None, start):
        with eager.kept():
            begin()
            read = ek.train_input_fn(spec, [f"{ads}/train-3.tfrecord.gz"], batch_size=10)
            made = tf.estimator.Estimator(
                NewModel(spec, {"optimizer": "adam"}),
                str(tmp_path / str(len(losses))),
                tf.estimator.RunConfig(tf_random_seed=1),
            )
            made.train(read, steps=2)
        losses.append(variables(tmp_path / str(len(losses)))["weights"])
    assert losses[1] == pytest.approx(losses[0], abs=1e-6)
