"""Writes the graph and the variables of a checkpoint as a SavedModel into a given folder.

It does what `Estimator.export_saved_model` does, with these differences: it makes both inputs of
`serving_inputs` and the signatures of `signatures`, renames nothing, and can run the model on
features of the input pipeline before the session ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.exporters import signature_parts
from estimator_kit.exporters.sample_rows import on_cpu
from estimator_kit.exporters.signatures import make_signatures
from estimator_kit.exporters.skew import parts_of
from estimator_kit.model import python_ops
from estimator_kit.model.names import PREDICT_EXAMPLES, PREDICT_RAW
from estimator_kit.tf_estimator import ModeKeys
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import ServingInputs, serving_inputs

Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Written:
    """The content of a SavedModel.

    Attributes:
      signatures: `{name: SignatureDef}`.
      raw_signatures: the names of the signatures that take one tensor for each feature.
      features: column -> the names of its tensors; see `skew.parts_of`.
      answers: `{signature: {output: array}}` for the given features. `predict_raw` has the answers
        of `predict_examples`.
      needs: signature -> the features of the records that it takes; see `signature_parts`.
    """

    signatures: Mapping[str, Any]
    raw_signatures: frozenset[str]
    features: Mapping[str, tuple[str, ...]]
    answers: Mapping[str, Arrays]
    needs: Mapping[str, tuple[str, ...]]


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
      folder: the new folder; it must not exist.
      checkpoint: the path prefix of the checkpoint.
      default_signature: see `signatures`.
      features: features to run the model on, as a session returns them; see `Written`.
    """
    builder = tf.compat.v1.saved_model.Builder(folder)
    with tf.Graph().as_default() as graph:
        graph.seed = trained.config.tf_random_seed
        serving_graph = make_graph(trained.model_fn, spec, trained.config, default_signature)
        inputs, signatures, saver = (
            serving_graph.inputs,
            serving_graph.signatures,
            serving_graph.saver,
        )
        names = {
            column: tuple(part.name for part in parts_of(value))
            for column, value in inputs.features.items()
        }
        with tf.compat.v1.Session(config=on_cpu()) as session:
            saver.restore(session, checkpoint)
            main_op = serving_graph.main_op
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
                answers = _answers(session, serving_graph.feature_signatures, inputs, features)
    builder.save()
    raw = frozenset(n for n, signature in signatures.items() if _is_raw(n, signature, signatures))
    return Written(signatures, raw, names, answers, serving_graph.needs)


@dataclasses.dataclass(frozen=True)
class ServingGraph:
    """What an export needs of its graph.

    Attributes:
      inputs: the inputs of requests.
      signatures: `{name: SignatureDef}`.
      feature_signatures: the same, but the outputs depend on `inputs.features`, except in raw
        signatures.
      needs: signature -> the features of the records that it takes; see `signature_parts`.
      saver: restores the variables.
      main_op: runs when the export is loaded.
    """

    inputs: ServingInputs
    signatures: Mapping[str, Any]
    feature_signatures: Mapping[str, Any]
    needs: Mapping[str, tuple[str, ...]]
    saver: Any
    main_op: tf.Operation


def make_graph(
    model_fn: Callable[..., Any], spec: FeatureSpec, config: Any, default_signature: str
) -> ServingGraph:
    """Makes the graph of an export in the current graph. `config` is for the model_fn."""
    tf.compat.v1.train.get_or_create_global_step()
    inputs = serving_inputs(spec)
    with tf.variable_creator_scope(_StartValues().creator):
        estimator_spec = model_fn(
            features=inputs.features, labels=None, mode=ModeKeys.PREDICT, config=config
        )
    problem = python_ops.problem("the model", tf.compat.v1.get_default_graph())
    if problem is not None:
        raise ConfigError(problem)
    signatures_of_features = make_signatures(
        estimator_spec.export_outputs, inputs, default_signature
    )
    signatures, needs = signature_parts.of_parts(signatures_of_features, spec, inputs)
    saver = estimator_spec.scaffold.saver or tf.compat.v1.train.Saver(sharded=True)
    main_op = estimator_spec.scaffold.local_init_op
    if main_op is None:
        main_op = tf.compat.v1.train.Scaffold.default_local_init_op()
    return ServingGraph(inputs, signatures, signatures_of_features, needs, saver, main_op)


class _StartValues:
    """Variables of an export start as zeros, with one op for each shape, until they are restored.

    An initializer has up to eight ops, and nothing runs them in an export.
    """

    def __init__(self) -> None:
        self._zeros: dict[tuple[Any, ...], tf.Tensor] = {}

    def creator(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        """A creator of variables; see `tf.variable_creator_scope`."""
        shape, dtype = tf.TensorShape(kwargs.get("shape")), kwargs.get("dtype")
        is_local = tf.compat.v1.GraphKeys.LOCAL_VARIABLES in (kwargs.get("collections") or ())
        if callable(kwargs.get("initial_value")) and shape.is_fully_defined() and not is_local:
            key = (*shape.as_list(), dtype)

            def zeros() -> tf.Tensor:
                if key not in self._zeros:
                    self._zeros[key] = tf.zeros(shape, dtype or tf.float32)
                return self._zeros[key]

            kwargs["initial_value"] = zeros
        return next_creator(**kwargs)


def _answers(
    session: Any, signatures: Mapping[str, Any], inputs: ServingInputs, values: Mapping[str, Any]
) -> dict[str, Arrays]:
    feeds = {inputs.features[name]: value for name, value in values.items()}
    # No output reads the records. But if TensorFlow inlines a tf.function, its ops wait for the op
    # that parses them.
    feeds[inputs.examples] = np.empty([0], np.object_)
    joint = signatures[PREDICT_EXAMPLES].outputs
    # The outputs of raw signatures are separate ops that read other tensors.
    same = {
        name: joint if _is_raw(name, signature, signatures) else signature.outputs
        for name, signature in signatures.items()
    }
    fetches = {n: {key: info.name for key, info in o.items()} for n, o in same.items()}
    answers: dict[str, Arrays] = session.run(fetches, feeds)
    return answers


def _is_raw(name: str, signature: Any, signatures: Mapping[str, Any]) -> bool:
    return PREDICT_RAW in signatures and (
        name == PREDICT_RAW or signature == signatures[PREDICT_RAW]
    )
