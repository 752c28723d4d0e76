"""Copies a part of a graph within the same graph, with other inputs.

This way one model answers two kinds of requests: the graph contains its ops twice, but its
variables, tables and constants once. Calling the model_fn again would create the variables again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf


class CopyError(Exception):
    """The part cannot be copied; the message says why."""


# Ops of TensorFlow 1 loops and conditions, whose frames have names that a copy would share.
_OF_FRAMES = frozenset({"Enter", "RefEnter", "Switch", "RefSwitch"})


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


def ancestors(ops: Iterable[tf.Operation], stop: Mapping[tf.Operation, object]) -> set:
    """The ops that some ops depend on, with these ops, but nothing beyond the ops of `stop`."""
    found: set[tf.Operation] = set()
    waiting = list(ops)
    while waiting:
        op = waiting.pop()
        if op in found:
            continue
        found.add(op)
        if op not in stop:
            waiting += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return found


def _below(sources: Iterable[tf.Operation], among: set) -> set:
    """The ops among `among` that depend on the sources, without the sources."""
    users: dict[tf.Operation, list[tf.Operation]] = {}
    for op in among:
        for before in (*(tensor.op for tensor in op.inputs), *op.control_inputs):
            users.setdefault(before, []).append(op)
    start = set(sources)
    found: set[tf.Operation] = set()
    waiting = [user for source in start for user in users.get(source, [])]
    while waiting:
        op = waiting.pop()
        if op in found or op in start:
            continue
        found.add(op)
        waiting += users.get(op, [])
    return found
