"""Writes the graph and the variables of a checkpoint as a SavedModel, in a folder that is given.

What `Estimator.export_saved_model` does, but that it makes both inputs of `serving_inputs`, gives
the signatures of `signatures`, renames nothing, and can ask the model with features that came
through the input pipeline, before the session ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.compat.tf_estimator import ModeKeys
from estimator_kit.exporters.sample_rows import on_cpu
from estimator_kit.exporters.signatures import PREDICT_RAW, make_signatures
from estimator_kit.exporters.skew import parts_of
from estimator_kit.model.model_fn import PREDICT_EXAMPLES
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import serving_inputs
from input_pipelines.transform.transforms import Features

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Written:
    """What is in the SavedModel.

    Attributes:
      signatures: `{name: SignatureDef}`.
      raw_signatures: names of those that take a tensor a feature.
      features: column -> names of the tensors that it is made of; see `skew.parts_of`.
      answers: `{signature: {output: array}}` of the features that were given. Those of
        `predict_raw` are those of `predict_examples`.
    """

    signatures: Mapping[str, Any]
    raw_signatures: frozenset[str]
    features: Mapping[str, tuple[str, ...]]
    answers: Mapping[str, Arrays]


def write_saved_model(
    trained: Any,
    spec: FeatureSpec,
    folder: str,
    checkpoint: str,
    *,
    default_signature: str,
    features: Optional[Mapping[str, Any]] = None,
) -> Written:
    """Writes `saved_model.pb`, `variables` and `assets` of a checkpoint into a new folder.

    Args:
      trained: the `tf.estimator.Estimator`; its model_fn makes the graph.
      spec: its feature spec.
      folder: must not exist.
      checkpoint: its path prefix.
      default_signature: see `signatures`.
      features: values, as a session gives them, that the model is asked with; see `Written`.
    """
    builder = tf.compat.v1.saved_model.Builder(folder)
    with tf.Graph().as_default() as graph:
        graph.seed = trained.config.tf_random_seed
        tf.compat.v1.train.get_or_create_global_step()
        inputs = serving_inputs(spec)
        made = trained.model_fn(
            features=inputs.features, labels=None, mode=ModeKeys.PREDICT, config=trained.config
        )
        signatures = make_signatures(made.export_outputs, inputs, default_signature)
        names = {
            column: tuple(part.name for part in parts_of(value))
            for column, value in inputs.features.items()
        }
        saver = made.scaffold.saver or tf.compat.v1.train.Saver(sharded=True)
        with tf.compat.v1.Session(config=on_cpu()) as session:
            saver.restore(session, checkpoint)
            main_op = made.scaffold.local_init_op
            if main_op is None:
                main_op = tf.compat.v1.train.Scaffold.default_local_init_op()
            builder.add_meta_graph_and_variables(
                session,
                tags=[tf.saved_model.SERVING],
                signature_def_map=signatures,
                assets_collection=tf.compat.v1.get_collection(
                    tf.compat.v1.GraphKeys.ASSET_FILEPATHS
                ),
                main_op=main_op,
                saver=saver,
                strip_default_attrs=True,
            )
            answers: Mapping[str, Arrays] = {}
            if features is not None:
                session.run(main_op)
                answers = _answers(session, signatures, inputs.features, features)
    builder.save()
    raw = frozenset(n for n, made in signatures.items() if _is_raw(n, made, signatures))
    return Written(signatures, raw, names, answers)


def _answers(
    session: Any, signatures: Mapping[str, Any], tensors: Features, values: Mapping[str, Any]
) -> dict[str, Arrays]:
    feeds = {tensors[name]: value for name, value in values.items()}
    joint = signatures[PREDICT_EXAMPLES].outputs
    # The outputs of what takes tensors are ops of their own, on other features.
    same = {
        name: joint if _is_raw(name, signature, signatures) else signature.outputs
        for name, signature in signatures.items()
    }
    fetches = {n: {key: info.name for key, info in o.items()} for n, o in same.items()}
    found: dict[str, Arrays] = session.run(fetches, feeds)
    return found


def _is_raw(name: str, signature: Any, signatures: Mapping[str, Any]) -> bool:
    return PREDICT_RAW in signatures and (
        name == PREDICT_RAW or signature == signatures[PREDICT_RAW]
    )
