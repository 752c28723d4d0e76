"""Compares loss and AUC of an export and its transformed form on the rows of `--eval_files`.

    lines = quality_change.check(spec, records, before, after, limit=0.01)

Answers that differ by less than a tolerance can still rank or calibrate worse, for example in int8.
The metrics are computed from the logits of each export, as in an evaluation (`objectives`). Reads
no files and runs no model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from estimator_kit.errors import ExportError
from estimator_kit.exporters.sample_rows import on_cpu
from estimator_kit.model.heads import joint, make_heads
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.transforms import Transform

# The number of rows of --eval_files. Runtimes take one row at a time.
ROWS = 10_000

Answers = Mapping[str, np.ndarray]


def check(
    spec: FeatureSpec, records: Sequence[bytes], before: Answers, after: Answers, *, limit: float
) -> list[str]:
    """Returns a line for each objective with its loss and AUC before and after.

    Args:
      spec: the feature spec of the export.
      records: serialized records with labels.
      before, after: the answers of the export and of the result, including the logits.
      limit: the relative increase of a loss that is allowed; 0.01 is one percent.

    Raises:
      ExportError: a loss increased by more.
    """
    old, new = (metrics_of(spec, records, answers) for answers in (before, after))
    lines = []
    for name in old:
        texts = [f"{key}/{name} {old[name][key]:.4g} -> {new[name][key]:.4g}" for key in old[name]]
        lines.append(f"{', '.join(texts)} on {len(records):,} rows")
        was, now = old[name]["loss"], new[name]["loss"]
        if np.isnan(was):  # All rows have weight 0 for this objective.
            continue
        if not now - was <= limit * abs(was):
            raise ExportError(
                f"the result of --mode=transform was refused: {lines[-1]} of --eval_files; "
                f"--transform_max_loss_increase={limit:g} allows {was + limit * abs(was):.4g}"
            )
    return lines


def metrics_of(
    spec: FeatureSpec, records: Sequence[bytes], answers: Answers
) -> dict[str, dict[str, float]]:
    """`loss`, and `auc` if the head has it, by objective, computed as in an evaluation."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session(config=on_cpu()) as session:
        _, labels = Transform(spec).features_and_labels(tf.constant(list(records)))
        labels = joint.dense_labels(labels)
        heads = make_heads(spec)
        metrics = joint.metrics_of(
            heads,
            {n: tf.constant(answers[f"{n}/{o.logits_output}"]) for n, o in heads.items()},
            labels,
            {n: joint.weights_of(o, labels) for n, o in heads.items()},
        )
        found = {
            name: {k: metrics[f"{k}/{name}"] for k in ("loss", "auc") if f"{k}/{name}" in metrics}
            for name in heads
        }
        session.run([v1.local_variables_initializer(), v1.tables_initializer()])
        session.run([update for metrics in found.values() for _, update in metrics.values()])
        values = {n: {k: value for k, (value, _) in m.items()} for n, m in found.items()}
        return {
            name: {key: float(value) for key, value in metrics.items()}
            for name, metrics in session.run(values).items()
        }
