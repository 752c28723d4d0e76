"""ONNX: converts a model with tf2onnx, for example for ONNX Runtime. Needs the extra `onnx`.

ONNX cannot hash strings or compute crosses, and tf2onnx converts no lookup tables. A model that
needs them converts only with `--transform_inputs=columns`.
"""

from __future__ import annotations

import collections
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from estimator_kit.errors import ConfigError, ExportError
from estimator_kit.exporters.runtimes.requests import Inputs, Row

# ONNX 1.12 and ONNX Runtime 1.12 introduced this opset; tf2onnx 1.14 knows opsets up to 18.
_OPSET = 17


def packages() -> tuple[Any, Any, Any]:
    """onnx, onnxruntime and tf2onnx.

    Raises:
      ConfigError: one is missing, or does not work with this TensorFlow.
    """
    try:
        import onnx
        import onnxruntime
        import tf2onnx
    except ImportError as error:
        raise ConfigError(
            f"--transform=onnx needs the packages onnx, onnxruntime and tf2onnx ({error}). Install "
            "them with `pip install 'estimator-kit[onnx]'`, or, with Python 3.9, with `pip install "
            "--no-deps onnx==1.17.0 onnxruntime==1.19.2 tf2onnx==1.16.1`."
        ) from error
    return onnx, onnxruntime, tf2onnx


class Model:
    """A model file in ONNX Runtime, on the CPU.

    Attributes:
      ops: the number of ops of each type.
    """

    def __init__(self, content: bytes):
        onnx, onnxruntime, _ = packages()
        self.ops = collections.Counter(
            node.op_type for node in _nodes(onnx.load_model_from_string(content).graph)
        )
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # Its errors repeat what it logs.
        self._session = onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )
        self._inputs = [each.name for each in self._session.get_inputs()]
        self._outputs = [each.name for each in self._session.get_outputs()]

    def ask(self, rows: Iterable[Row]) -> dict[str, np.ndarray]:
        """Sends rows one by one; returns their answers as one array for each output.

        Raises:
          ExportError: the runtime cannot answer a row.
        """
        answers = []
        for number, row in enumerate(rows):
            sent = {name: _sent(row[name]) for name in self._inputs}
            try:
                answers.append(self._session.run(self._outputs, sent))
            except Exception as error:  # ONNX Runtime's errors have no public base.
                raise ExportError(
                    f"ONNX Runtime cannot answer row {number}, as happens where a list is empty: "
                    f"{' '.join(str(error).split())}"
                ) from error
        columns = [np.concatenate(values) for values in zip(*answers)]
        return dict(zip(self._outputs, map(_received, columns)))


def convert(graph: Any, inputs: Inputs) -> bytes:
    """The model file of a frozen GraphDef that begins with placeholders.

    Raises:
      ConfigError: the extra is missing.
      ExportError: ONNX cannot express it; the message names the ops.
    """
    onnx, _, tf2onnx = packages()
    _without_log1p(graph)
    tensors = [name for name, _, _ in inputs.tensors.values()]
    outputs = list(dict.fromkeys(inputs.outputs.values()))
    log = logging.getLogger("tf2onnx")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)  # It logs a traceback for each unknown op.
    try:
        model, _ = tf2onnx.convert.from_graph_def(
            graph, input_names=tensors, output_names=outputs, opset=_OPSET
        )
    except (ValueError, RuntimeError, AssertionError, KeyError) as error:
        raise ExportError(
            f"tf2onnx cannot convert the model: {' '.join(str(error).split())}"
        ) from error
    finally:
        log.setLevel(level)
    unknown = sorted(
        {n.op_type for n in _nodes(model.graph) if not onnx.defs.has(n.op_type, n.domain)}
    )
    if unknown:
        remedy = (
            ". Use --transform_inputs=columns, which leaves strings and their lookups to the app."
            if inputs.form == "features"
            else ""
        )
        raise ExportError(f"ONNX has no ops for {', '.join(unknown)}{remedy}")
    _rename(onnx, model.graph, inputs)
    content: bytes = model.SerializeToString()
    return content


def _without_log1p(graph: Any) -> None:
    """Replaces log1p(x), which ONNX does not have, by log(x + 1)."""
    for node in [node for node in graph.node if node.op == "Log1p"]:
        one = graph.node.add(op="Const", name=f"{node.name}/one")
        one.attr["dtype"].CopyFrom(node.attr["T"])
        value = one.attr["value"].tensor
        value.dtype = node.attr["T"].type
        value.tensor_shape.SetInParent()
        value.float_val.append(1.0)
        total = graph.node.add(op="AddV2", name=f"{node.name}/sum")
        total.input.extend([node.input[0], one.name])
        total.attr["T"].CopyFrom(node.attr["T"])
        node.op = "Log"
        node.input[0] = total.name


def _rename(onnx: Any, graph: Any, inputs: Inputs) -> None:
    """Gives inputs and outputs the names that a user knows; a tensor may be several outputs."""
    names = {tensor: name for name, (tensor, _, _) in inputs.tensors.items()}
    _renamed(graph, names)
    types = {value.name: value for value in graph.output}
    del graph.output[:]
    for name, tensor in inputs.outputs.items():
        source = names.get(tensor, tensor)
        graph.node.append(onnx.helper.make_node("Identity", [source], [name]))
        output = graph.output.add()
        output.CopyFrom(types[source])
        output.name = name


def _renamed(graph: Any, names: Mapping[str, str]) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for field in (node.input, node.output):
            field[:] = [names.get(name, name) for name in field]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _renamed(attribute.g, names)


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def _sent(value: np.ndarray) -> np.ndarray:
    if value.dtype != object:
        return value
    words = [word.decode() if isinstance(word, bytes) else word for word in value.ravel()]
    return np.array(words, object).reshape(value.shape)


def _received(value: np.ndarray) -> np.ndarray:
    if value.dtype != object:
        return value
    return np.array([str(word).encode() for word in value.ravel()], object).reshape(value.shape)
