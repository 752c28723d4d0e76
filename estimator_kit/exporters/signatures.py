"""The signatures of an export.

  serving_default       one of the signatures below; --default_signature chooses it
  predict_examples      all objectives, from serialized records under `examples`
  predict_raw           the same, from one tensor for each feature, by `input_names` of
                        `input_pipelines.transform.serving_inputs`
  predict/<objective>   one objective, from `examples`; with the words of up to 1,000 classes in the
                        order of `probabilities` (`model.heads.class_metrics`)
  classify/<objective>  if the head has classes: `classes` and `scores`, from `inputs`
  regress/<objective>   if the head has a number: `outputs`, from `inputs`
  top_k/<objective>     the best `items` of the head next_item with their `scores`, from `examples`,
                        `k` and `exclude_seen`
  user_vector/<objective>, item_vectors/<objective>
                        the vectors whose products are the scores of the head next_item, from
                        `examples` and from `ids` (`model.heads.top_items`)
  <name>                what the model adds with `add_output`, from `examples`

All of them take any number of rows. Each input has a first dimension, the rows, so that TensorFlow
Serving can join requests into batches.

A second signature of the model is a copy of a part of the graph, with other inputs (`copied`): the
graph contains these ops twice, but its variables, tables and constants once. Calling the model_fn
again would create the variables again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.names import PREDICT_EXAMPLES, PREDICT_RAW
from estimator_kit.tf_estimator import ModeKeys, estimator
from feature_specs.errors import did_you_mean
from feature_specs.heads import NextItem
from feature_specs.spec import FeatureSpec
from input_pipelines.transform.serving_inputs import EXAMPLES, ServingInputs, features_and_receivers
from input_pipelines.transform.transforms import Transform

_log = logging.getLogger("estimator_kit")

# Ops of TensorFlow 1 loops and conditions, whose frames have names that a copy would share.
_OF_FRAMES = frozenset({"Enter", "RefEnter", "Switch", "RefSwitch"})

SERVING_DEFAULT = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


def make_signatures(
    export_outputs: Mapping[str, Any], inputs: ServingInputs, default: str
) -> dict[str, Any]:
    """`{name: SignatureDef}` for the graph that a model_fn has built from `inputs.features`.

    Args:
      export_outputs: the `export_outputs` of its EstimatorSpec.
      inputs: the inputs of requests.
      default: the name of the signature that is also `serving_default`.

    Raises:
      ConfigError: the model has no signature of that name.
    """
    joint = export_outputs.get(PREDICT_EXAMPLES, export_outputs[SERVING_DEFAULT])
    outputs = {**export_outputs, PREDICT_EXAMPLES: joint}
    signatures = {
        name: output.as_signature_def({EXAMPLES: inputs.examples})
        for name, output in outputs.items()
        if name != SERVING_DEFAULT
    }
    try:
        raw = raw_outputs(joint.outputs, inputs)
    except CopyError as error:
        _log.warning("The export has no signature %s: %s.", PREDICT_RAW, error)
    else:
        signatures[PREDICT_RAW] = tf.compat.v1.saved_model.predict_signature_def(inputs.raw, raw)
    check_name(default, signatures)
    return {**signatures, SERVING_DEFAULT: signatures[default]}


def defaults_of(signature: Any) -> dict[str, np.ndarray]:
    """The values of inputs that a request may leave out, by input."""
    return {name: tf.make_ndarray(value) for name, value in signature.defaults.items()}


def options_of(
    name: str, signatures: Mapping[str, Any], spec: FeatureSpec
) -> dict[str, np.ndarray]:
    """One row of the inputs `k` and `exclude_seen` of a signature; empty if it has none."""
    for objective, entry in spec.objectives.items():
        if isinstance(entry, NextItem) and signatures[name] == signatures.get(f"top_k/{objective}"):
            k, exclude_seen = np.array([entry.top_k], np.int32), np.array([entry.exclude_seen])
            return {"k": k, "exclude_seen": exclude_seen}
    return {}


def raw_outputs(outputs: Mapping[str, tf.Tensor], inputs: ServingInputs) -> dict[str, tf.Tensor]:
    """Copies of the outputs that read one tensor for each feature."""
    old, new = (
        tf.nest.flatten(features, expand_composites=True)
        for features in (inputs.features, inputs.raw_features)
    )
    values = copied(list(outputs.values()), list(zip(old, new)), name="raw")
    if depends_on(values, inputs.examples):
        raise CopyError("an output reads the records directly, not through the features")
    return dict(zip(outputs, values))


def check_default(name: str, model: ModelFn) -> None:
    """Raises ConfigError if an export of the model cannot have this signature."""
    if name in (PREDICT_EXAMPLES, PREDICT_RAW):
        return
    with tf.Graph().as_default() as graph:
        graph.seed = 1  # The graph draws no random numbers; see `checkpoints`.
        tf.compat.v1.train.get_or_create_global_step()
        examples = tf.compat.v1.placeholder(tf.string, [None])
        spec = model(Transform(model.spec).features(examples), None, ModeKeys.PREDICT)
    check_name(name, [*spec.export_outputs, PREDICT_RAW])


def check_name(name: str, existing: Iterable[str]) -> None:
    names = sorted(set(existing) - {SERVING_DEFAULT})
    if name not in names:
        raise ConfigError(
            f"--default_signature={name}: the model has no such signature"
            f"{did_you_mean(name, names)}"
        )


def serving_input_receiver_fn(spec: FeatureSpec) -> Callable[[], Any]:
    """Returns a `serving_input_receiver_fn` that takes serialized `tf.train.Example`s.

    If the spec has feature lists, it takes SequenceExamples. The receiver is a string tensor [rows]
    under `examples`, for any number of rows. Records need only the features that a group reads, and
    no labels or weights.
    """

    def receiver() -> Any:
        return estimator.export.ServingInputReceiver(*features_and_receivers(spec))

    return receiver


class CopyError(Exception):
    """The part cannot be copied; the message says why."""


def copied(
    outputs: Sequence[tf.Tensor], replaced: Sequence[tuple[tf.Tensor, tf.Tensor]], *, name: str
) -> list[tf.Tensor]:
    """Returns copies of `outputs` in which some tensors are replaced.

    Args:
      outputs: tensors of one graph.
      replaced: pairs of an old and a new tensor. The old tensor is the only output of its op.
      name: the name scope of the new ops. Ops that do not depend on a replaced tensor are shared.

    Raises:
      CopyError: the part between `replaced` and `outputs` cannot be copied.
    """
    graph = outputs[0].graph
    sources = {old.op: new for old, new in replaced}
    above = ancestors((tensor.op for tensor in outputs), stop=sources)
    part = _below(sources, above)
    bad = sorted(op.name for op in part if op.type in _OF_FRAMES)
    if bad:
        raise CopyError(f"the model has TensorFlow 1 loops or conditions, for example {bad[0]}")
    if not part:
        return [sources.get(tensor.op, tensor) for tensor in outputs]
    graph_def = tf.compat.v1.GraphDef(versions=graph.graph_def_versions)
    names = {op.name for op in part}
    input_map = {}
    for op in sorted(part, key=lambda op: op.name):
        node = graph_def.node.add()
        node.CopyFrom(op.node_def)
        # It names ops that stay shared, and the copy does not have to be on their device.
        node.attr.pop("_class", None)
        for tensor in op.inputs:
            if tensor.op in sources:
                input_map[tensor.name] = sources[tensor.op]
            elif tensor.op not in part:
                input_map[tensor.name] = tensor
        for before in op.control_inputs:
            if before not in part:
                input_map[f"^{before.name}"] = before
    kept = [f"{t.op.name}:{t.value_index}" for t in outputs if t.op.name in names]
    with graph.as_default():
        new = iter(
            tf.graph_util.import_graph_def(graph_def, input_map, return_elements=kept, name=name)
        )
    return [
        next(new) if tensor.op.name in names else sources.get(tensor.op, tensor)
        for tensor in outputs
    ]


def depends_on(outputs: Iterable[tf.Tensor], tensor: tf.Tensor) -> bool:
    """Whether any of the outputs depends on a tensor."""
    return tensor.op in ancestors((output.op for output in outputs), stop={})


def ancestors(ops: Iterable[tf.Operation], stop: Mapping[tf.Operation, object]) -> set[Any]:
    """The ops that some ops depend on, with these ops, but nothing beyond the ops of `stop`."""
    reached_ops: set[tf.Operation] = set()
    waiting = list(ops)
    while waiting:
        op = waiting.pop()
        if op in reached_ops:
            continue
        reached_ops.add(op)
        if op not in stop:
            waiting += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return reached_ops


def _below(sources: Iterable[tf.Operation], among: set[Any]) -> set[Any]:
    """The ops among `among` that depend on the sources, without the sources."""
    users: dict[tf.Operation, list[tf.Operation]] = {}
    for op in among:
        for before in (*(tensor.op for tensor in op.inputs), *op.control_inputs):
            users.setdefault(before, []).append(op)
    start = set(sources)
    dependents: set[tf.Operation] = set()
    waiting = [user for source in start for user in users.get(source, [])]
    while waiting:
        op = waiting.pop()
        if op in dependents or op in start:
            continue
        dependents.add(op)
        waiting += users.get(op, [])
    return dependents
