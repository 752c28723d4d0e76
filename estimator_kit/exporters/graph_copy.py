"""A part of a graph once more, in the same graph, on other inputs.

So one model serves two kinds of request: its ops are there twice, its variables, tables and
constants once. A model_fn could not simply be called again: it would make its variables again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf


class CopyError(Exception):
    """The part cannot be copied; the message says why."""


# Of the loops and conditions of TensorFlow 1, whose frames have names of their own.
_OF_FRAMES = frozenset({"Enter", "RefEnter", "Switch", "RefSwitch"})


def copied(
    outputs: Sequence[tf.Tensor], replaced: Sequence[tuple[tf.Tensor, tf.Tensor]], *, name: str
) -> list[tf.Tensor]:
    """What `outputs` would be if other tensors stood in the place of some.

    Args:
      outputs: of one graph.
      replaced: pairs of a tensor that outputs depend on, the only one of its op, and the one in
        its place.
      name: the scope of the new ops. Everything that depends on no replaced tensor is shared.

    Raises:
      CopyError: see the class.
    """
    graph = outputs[0].graph
    sources = {old.op: new for old, new in replaced}
    above = _ancestors((tensor.op for tensor in outputs), stop=sources)
    part = _below(sources, above)
    bad = sorted(op.name for op in part if op.type in _OF_FRAMES)
    if bad:
        raise CopyError(f"it has loops or conditions of TensorFlow 1, as {bad[0]}")
    if not part:
        return [sources.get(tensor.op, tensor) for tensor in outputs]
    graph_def = tf.compat.v1.GraphDef(versions=graph.graph_def_versions)
    names = {op.name for op in part}
    input_map = {}
    for op in sorted(part, key=lambda op: op.name):
        node = graph_def.node.add()
        node.CopyFrom(op.node_def)
        # Of ops that are shared, and need no neighbour to be where they are.
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
    """Whether any of some tensors needs another one."""
    return tensor.op in _ancestors((output.op for output in outputs), stop={})


def _ancestors(ops: Iterable[tf.Operation], stop: Mapping[tf.Operation, object]) -> set:
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
    """Which of some ops depend on the sources, these left out."""
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
