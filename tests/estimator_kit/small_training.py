"""An Estimator of a small model, trained for a step or two on a few rows, for tests of exports."""

from __future__ import annotations

import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints import run_record
from estimator_kit.config.modes import command_of
from estimator_kit.models import find_model
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform


def batch_of(spec, rows, *, labels=True):
    """An input_fn that returns the same batch twice, or once without labels.

    The kit's pipeline takes longer, and other tests cover it.
    """
    records = [writing.example(row).SerializeToString() for row in rows]

    def make():
        transform = Transform(spec)
        parse = transform.features_and_labels if labels else transform.features
        batches = tf.data.Dataset.from_tensors(records).repeat(2 if labels else 1)
        return batches.map(tf.autograph.experimental.do_not_convert(parse))

    return make


def trained_wide_deep(folder, document, rows, *, steps):
    """(Estimator, spec): its model directory `clicks` has the record of a run."""
    spec = feature_specs.parse(document)
    config = tf.estimator.RunConfig(
        model_dir=f"{folder}/clicks", save_summary_steps=None, tf_random_seed=7
    )
    model = find_model("wide_deep")(spec, {"hidden_units": [4]})
    made = tf.estimator.Estimator(model, config=config)
    made.train(batch_of(spec, rows), steps=steps)
    fields = {"spec": "s", "model_dir": config.model_dir, "train_files": ("t",), "max_steps": 1}
    run_record.write_record(command_of(ek.ExperimentConfig(mode="train", **fields)), spec)
    return made, spec
