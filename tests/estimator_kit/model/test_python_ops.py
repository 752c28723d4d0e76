"""A model that calls Python in what an export would contain is refused before its training."""

from __future__ import annotations

import os
import re

import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints.model_outline import outline
from tests.conftest import small_run
from tests.estimator_kit.model.test_model_fn import Constant

ModeKeys = tf.estimator.ModeKeys
HERE = re.escape(__file__)


def same(x):
    """x, by a Python function."""
    y = tf.numpy_function(lambda value: value, [x], x.dtype)
    y.set_shape(x.shape)
    return y


class Calls(Constant):
    """Calls Python in `logits`, in one of several ways."""

    class Params(Constant.Params):
        how: str = "no"

    def logits(self, features, mode):
        x = super().logits(features, mode)
        return getattr(self, self.params.how)(x, mode)

    def no(self, x, mode):
        return x

    def direct(self, x, mode):
        return x + 0 * tf.stop_gradient(same(x))

    def unused(self, x, mode):
        same(x)
        return x

    def in_a_loop(self, x, mode):
        return x + 0 * tf.stop_gradient(tf.map_fn(same, x))

    def in_functions(self, x, mode):
        inner = tf.function(lambda y: tf.cond(tf.size(y) > 0, lambda: same(y), lambda: y))
        return x + 0 * tf.stop_gradient(inner(x))

    def output(self, x, mode):
        self.add_output("mine", same(x))
        return x

    def in_training(self, x, mode):
        return self.direct(x, mode) if mode == ModeKeys.TRAIN else x

    def start_value(self, x, mode):
        start = tf.numpy_function(lambda: 1.0, [], tf.double)
        factor = tf.compat.v1.get_variable("f", initializer=lambda: tf.ensure_shape(start, []))
        return x * tf.cast(factor, tf.float32)

    def in_a_metric(self, x, mode):
        return x

    def metrics(self, labels, predictions, weights, features):
        if self.params.how != "in_a_metric":
            return {}
        return {"mine": tf.compat.v1.metrics.mean(same(predictions["click/logits"]))}


REFUSED = ("direct", "unused", "in_a_loop", "in_functions", "output")
ACCEPTED = ("no", "in_training", "start_value", "in_a_metric")


@pytest.mark.parametrize(
    "how",
    [
        *(
            pytest.param(how, marks=pytest.mark.nightly if i else ())
            for i, how in enumerate(REFUSED)
        ),
        *(pytest.param(how, marks=pytest.mark.nightly) for how in ACCEPTED),
    ],
)
def test_what_an_export_cannot_contain_is_found_in_the_graph_of_predictions(document, how):
    problem = outline(Calls(feature_specs.parse(document), {"how": how})).not_exportable
    if how in ACCEPTED:
        assert problem is None
        return
    assert re.fullmatch(
        rf"{HERE}:\d+: Calls\.logits: the operation \S+ calls a Python function, which an export "
        r"cannot contain\. Write it with TensorFlow's operations, or call it only in training\.",
        problem,
    )


@pytest.mark.ci
def test_a_run_is_refused_before_a_file_is_written_if_it_exports(ads, tmp_path):
    run = small_run(
        ads,
        tmp_path / "model",
        mode="train_and_evaluate",
        model=f"{__name__}:Calls",
        model_params={"how": "direct"},
        max_steps=2,
    )
    with pytest.raises(ek.ConfigError) as error:
        ek.run(run(exporters=("final",)))
    assert re.match(rf"{HERE}:\d+: Calls\.logits: ", str(error.value))
    assert str(error.value).endswith(" To train without exports, remove --exporters.")
    assert not os.path.exists(tmp_path / "model")
    assert ek.run(run()).status == "done"
    with pytest.raises(ek.ConfigError, match=rf"^{HERE}:\d+: the model: the operation PyFunc"):
        ek.run(run(mode="export", train_files=()))
    assert os.listdir(tmp_path / "model" / "export" / "final") == []
