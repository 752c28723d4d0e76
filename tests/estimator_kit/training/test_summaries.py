"""Summaries of a training: images of a feature, and the steps at which they are written."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.model.modes import training
from estimator_kit.observing.tensorboard import summaries
from estimator_kit.training.hooks.summaries import SummariesHook

SPEC = feature_specs.parse(
    {
        "features": {
            "photo": {
                "dtype": "string",
                "decode": {"image": {"height": 2, "width": 2, "channels": 3}},
            },
            "raw": {"dtype": "string", "decode": {"raw": {"dtype": "uint8", "shape": [2, 2]}}},
        },
        "columns": {"photo": {"numeric": "photo"}, "raw": {"numeric": "raw"}},
        "groups": {"deep": ["photo", "raw"]},
        "labels": {"y": {"dtype": "int64"}},
        "objectives": {"y": {"head": "binary"}},
    }
)
# Five rows; the largest value is 1, which is 255 in an image of bytes.
PIXELS = np.random.default_rng(1).integers(0, 256, (5, 2, 2, 3))
PIXELS[:, 0, 0, 0] = 255


class Progress:
    rows, seconds = 0, 0.0


class Steps(tf.compat.v1.train.SessionRunHook):
    """Ten rows in half a second for each step after the first."""

    def __init__(self, progress):
        self._progress = progress

    def after_run(self, run_context, run_values):
        self._progress.seconds += 0.5 if self._progress.rows else 0.0
        self._progress.rows += 10


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """`{tag: [(step, value)]}` of seven steps with a summary at every second one."""
    folder = str(tmp_path_factory.mktemp("model"))
    progress = Progress()
    first = [summaries.scalar("first", 1.0)]
    with tf.Graph().as_default():
        step = tf.compat.v1.train.get_or_create_global_step()
        flat = tf.constant(PIXELS.reshape(5, 12) / 255, tf.float32)
        raw = tf.ones([5, 4])
        training.name_images(SPEC, {"photo": flat, "raw": raw})
        tf.compat.v1.get_variable("dnn/kernel", initializer=tf.ones([3]))
        train_op = tf.compat.v1.assign_add(step, 1)
        hook = SummariesHook(folder, progress, lambda: first, every_steps=2)
        hooks = [Steps(progress), hook]
        with tf.compat.v1.train.SingularMonitoredSession(hooks) as session:
            for _ in range(7):
                session.run(train_op)
        assert not tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SUMMARIES)
    tf.compat.v1.summary.FileWriterCache.clear()
    found = {}
    for path in tf.io.gfile.glob(f"{folder}/events*"):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value))
    return found


def test_images_at_doubling_distances(written):
    # Summaries are at the steps 1, 3, 5 and 7, of which the 1st, 2nd and 4th have images.
    tags = [f"image/photo/image/{i}" for i in range(training.IMAGES)]
    assert {tag for tag in written if tag.startswith("image/")} == set(tags)
    for i, tag in enumerate(tags):
        assert [step for step, _ in written[tag]] == [1, 3, 7]
        image = written[tag][0][1].image
        np.testing.assert_array_equal(tf.io.decode_png(image.encoded_image_string), PIXELS[i])


def test_examples_a_second_since_the_last_summary(written):
    # The first step takes no time. Then 20 rows in a second.
    rates = [(step, value.simple_value) for step, value in written["examples_per_second"]]
    assert rates == [(3, 20.0), (5, 20.0), (7, 20.0)]


def test_first_values_come_once(written):
    assert [(step, value.simple_value) for step, value in written["first"]] == [(0, 1.0)]
