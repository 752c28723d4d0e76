"""TensorFlow Lite: a model file for phones and small devices.

    tflite           numbers as they are
    tflite_dynamic   large weights (TensorFlow takes those above 1,024 numbers) as int8; activations
                     stay float32
    tflite_int8      weights and activations as int8, by the ranges that representative rows have;
                     inputs and outputs stay as they are, and so do ops without an int8 kernel

Ops are TensorFlow Lite's own where it has them, else TensorFlow's, which an app needs its Flex
delegate for: `Model.flex`. A runtime without that delegate, such as the interpreter in late
TensorFlows, cannot run them, which is an error here, for nothing is written that was not asked.
"""

from __future__ import annotations

import collections
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.lite.python.convert_phase import ConverterError

from estimator_kit.errors import ExportError
from estimator_kit.exporters.runtimes.requests import Row

KINDS = ("tflite", "tflite_dynamic", "tflite_int8")

# TensorFlow 2.20 and later announce another package for what they still have.
_DEPRECATED = r"\s*Warning: tf\.lite\.Interpreter is deprecated"
# Of int8 models whose inputs stay as they are.
_UNQUANTIZED = "Statistics for quantized inputs were expected"

# Of the interpreter, for ops that need the delegate.
_NO_FLEX = "Select TensorFlow op"

_REMEDY = (
    "use --transform_inputs=columns, which leaves strings and their lookups to the app, or spec "
    "columns that need none, such as identity ones"
)


class Model:
    """A model file in TensorFlow Lite's interpreter.

    Attributes:
      ops: how many there are of each; TensorFlow's own have names that start with Flex.
      int8_ops: how many give int8.
    """

    def __init__(self, content: bytes):
        with _quiet():
            self._interpreter = tf.lite.Interpreter(model_content=content)
        self._runner: Any = None
        types = {t["index"]: t["dtype"] for t in self._interpreter.get_tensor_details()}
        details = [
            op
            for op in self._interpreter._get_ops_details()
            if op["op_name"] != "DELEGATE"  # Stands for ops that are listed, too.
        ]
        self.ops = collections.Counter(op["op_name"] for op in details)
        self.int8_ops = sum(
            any(types.get(index) is np.int8 for index in op["outputs"]) for op in details
        )

    @property
    def flex(self) -> list[str]:
        """TensorFlow's own ops in it."""
        return sorted(name[4:] for name in self.ops if name.startswith("Flex"))

    def ask(self, rows: Iterable[Row]) -> dict[str, np.ndarray]:
        """The answers to rows that are sent one by one, put together.

        Raises:
          ExportError: it cannot run, or not on one of them.
        """
        answers = []
        for number, row in enumerate(rows):
            try:
                sent = {k: _sent(value) for k, value in row.items()}
                if self._runner is None:
                    self._runner = self._interpreter.get_signature_runner()
                    if self.flex:  # The first request has to resize what it is sent to.
                        self._runner(**{k: np.concatenate([v, v]) for k, v in sent.items()})
                answers.append(self._runner(**sent))
            except (RuntimeError, ValueError) as error:
                if _NO_FLEX in str(error):
                    raise ExportError(_without_flex(self.flex)) from error
                raise ExportError(
                    f"TensorFlow Lite cannot answer row {number}: "
                    f"{' '.join(str(error).split())}: {_REMEDY}"
                ) from error
        return {name: np.concatenate([a[name] for a in answers]) for name in answers[0]}


def convert(
    folder: str, signature: str, kind: str, representative: Iterable[Row], inputs: Mapping[str, Any]
) -> bytes:
    """The model file of a signature of a SavedModel.

    Args:
      folder: of the SavedModel.
      signature: of one tensor for each input.
      kind: of KINDS.
      representative: rows, for `tflite_int8`.
      inputs: what the signature takes.

    Raises:
      ExportError: TensorFlow Lite cannot express it; the message names the ops.
    """

    def rows() -> Iterator[tuple[str, Row]]:
        for row in representative:
            yield signature, {name: row[name] for name in inputs}

    try:
        with _quiet():
            converter = tf.lite.TFLiteConverter.from_saved_model(
                folder, signature_keys=[signature], tags={tf.saved_model.SERVING}
            )
            converter.target_spec.supported_ops = [
                tf.lite.OpsSet.TFLITE_BUILTINS,
                tf.lite.OpsSet.SELECT_TF_OPS,
            ]
            if kind != "tflite":
                converter.optimizations = [tf.lite.Optimize.DEFAULT]
            if kind == "tflite_int8":
                converter.representative_dataset = rows
            content: bytes = converter.convert()
    except ConverterError as error:
        ops = sorted(set(re.findall(r"'tf\.(\w+)' op", str(error))))
        what = f"the ops {', '.join(ops)}" if ops else " ".join(str(error).split())
        raise ExportError(f"TensorFlow Lite cannot convert {what}: {_REMEDY}") from error
    except (RuntimeError, ValueError) as error:
        if _NO_FLEX in str(error):  # Int8 is made by running it.
            ops = re.findall(r"\(Flex(\w+)\)", str(error))
            raise ExportError(_without_flex(ops)) from error
        raise ExportError(
            f"TensorFlow Lite's converter: {' '.join(str(error).split())}: {_REMEDY}"
        ) from error
    return content


def _without_flex(ops: Iterable[str]) -> str:
    return (
        f"TensorFlow Lite has no ops of its own for {', '.join(ops)}, and the interpreter of "
        f"TensorFlow {tf.__version__} cannot run TensorFlow's, so the model cannot be asked: "
        f"{_REMEDY}; or convert it with TensorFlow 2.15, whose interpreter can"
    )


def _sent(value: np.ndarray) -> np.ndarray:
    return value.astype(bytes) if value.dtype == object else value


class _quiet(warnings.catch_warnings):  # noqa: N801  # reads as what it is: with _quiet():
    """Without the two warnings that mean nothing to a user here."""

    def __enter__(self) -> Any:
        result = super().__enter__()
        for text in (_DEPRECATED, _UNQUANTIZED):
            warnings.filterwarnings("ignore", text, UserWarning)
        return result
