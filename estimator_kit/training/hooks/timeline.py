"""`--timeline`: traces of single steps for Chrome, by TensorFlow's `ProfilerHook`.

    timeline.hooks(config)

It writes `model_dir/timeline/timeline-<step>.json`, which Chrome shows under chrome://tracing. The
traced steps are slower. Nothing else changes.
"""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from estimator_kit.config.mode_configs import ModelDirConfig


def hooks(config: ModelDirConfig) -> list[Any]:
    """The hook, or none without --timeline."""
    if not config.timeline:
        return []
    folder = os.path.join(config.model_dir, "timeline")
    # TensorFlow's hook opens a FileWriter at once, which needs a graph. It must not be the writer
    # of the model directory: the first writer of a folder decides which graph its events show.
    with tf.Graph().as_default():
        hook = tf.compat.v1.train.ProfilerHook(save_steps=config.summary_steps, output_dir=folder)
    return [hook]
