"""TensorFlow Lite: a model file for phones and small devices.

    tflite           keeps all dtypes
    tflite_dynamic   large weights (those with more than 1,024 numbers) become int8; activations
                     stay float32
    tflite_int8      weights and activations become int8, with ranges from representative rows;
                     inputs, outputs and ops without an int8 kernel keep their dtypes

The file uses TensorFlow Lite's ops if they exist, and TensorFlow's ops otherwise. An app needs the
Flex delegate for the latter (`Model.flex`). A runtime without that delegate, such as the
interpreter in recent TensorFlow versions, cannot run them. This is an error here, because the kit
never writes a file that it could not check.
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

# TensorFlow 2.20 and later announce that the interpreter moves to another package.
_DEPRECATED = r"\s*Warning: tf\.lite\.Interpreter is deprecated"
# A warning for int8 models whose inputs keep their dtypes.
_UNQUANTIZED = "Statistics for quantized inputs were expected"

# Part of the interpreter's error for ops that need the Flex delegate.
_NO_FLEX = "Select TensorFlow op"

_REMEDY = (
    "Use --transform_inputs=columns, which leaves strings and their lookups to the app, or use "
    "columns without lookups, such as identity columns."
)


class Model:
    """A model file in TensorFlow Lite's interpreter.

    Attributes:
      ops: the number of ops of each type; names of TensorFlow's ops start with Flex.
      int8_ops: the number of ops with an int8 output.
    """

    def __init__(self, content: bytes):
        with _quiet():
            self._interpreter = tf.lite.Interpreter(model_content=content)
        self._runner: Any = None
        types = {t["index"]: t["dtype"] for t in self._interpreter.get_tensor_details()}
        details = [
            op
            for op in self._interpreter._get_ops_details()
            if op["op_name"] != "DELEGATE"  # It stands for ops that are also listed.
        ]
        self.ops = collections.Counter(op["op_name"] for op in details)
        self.int8_ops = sum(
            any(types.get(index) is np.int8 for index in op["outputs"]) for op in details
        )

    @property
    def flex(self) -> list[str]:
        """The types of TensorFlow's ops in the model."""
        return sorted(name[4:] for name in self.ops if name.startswith("Flex"))

    def ask(self, rows: Iterable[Row]) -> dict[str, np.ndarray]:
        """Sends rows one by one; returns their answers as one array for each output.

        Raises:
          ExportError: the interpreter cannot run the model, or cannot answer a row.
        """
        answers = []
        for number, row in enumerate(rows):
            try:
                sent = {k: _sent(value) for k, value in row.items()}
                if self._runner is None:
                    self._runner = self._interpreter.get_signature_runner()
                    if self.flex:  # The first request must resize the inputs.
                        self._runner(**{k: np.concatenate([v, v]) for k, v in sent.items()})
                answers.append(self._runner(**sent))
            except (RuntimeError, ValueError) as error:
                if _NO_FLEX in str(error):
                    raise ExportError(_without_flex(self.flex)) from error
                raise ExportError(
                    f"TensorFlow Lite cannot answer row {number}: "
                    f"{' '.join(str(error).split()).rstrip('.')}. {_REMEDY}"
                ) from error
        return {name: np.concatenate([a[name] for a in answers]) for name in answers[0]}


def convert(
    folder: str, signature: str, kind: str, representative: Iterable[Row], inputs: Mapping[str, Any]
) -> bytes:
    """Converts a signature of a SavedModel; returns the content of the model file.

    Args:
      folder: the folder of the SavedModel.
      signature: the signature; it has one tensor for each input.
      kind: one of KINDS.
      representative: representative rows, for `tflite_int8`.
      inputs: the inputs of the signature.

    Raises:
      ExportError: TensorFlow Lite cannot express the model; the message names the ops.
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
        raise ExportError(
            f"TensorFlow Lite cannot convert {what.rstrip('.')}. {_REMEDY}"
        ) from error
    except (RuntimeError, ValueError) as error:
        if _NO_FLEX in str(error):  # The int8 conversion runs the model.
            ops = re.findall(r"\(Flex(\w+)\)", str(error))
            raise ExportError(_without_flex(ops)) from error
        raise ExportError(
            f"TensorFlow Lite's converter: {' '.join(str(error).split()).rstrip('.')}. {_REMEDY}"
        ) from error
    return content


def _without_flex(ops: Iterable[str]) -> str:
    return (
        f"TensorFlow Lite has no ops for {', '.join(ops)}, and the interpreter of TensorFlow "
        f"{tf.__version__} cannot run TensorFlow's ops, so the model cannot be checked. {_REMEDY} "
        "Or convert the model with TensorFlow 2.15, whose interpreter can run them."
    )


def _sent(value: np.ndarray) -> np.ndarray:
    return value.astype(bytes) if value.dtype == object else value


class _quiet(warnings.catch_warnings):  # noqa: N801  # reads as what it is: with _quiet():
    """Ignores two warnings that do not concern the user."""

    def __enter__(self) -> Any:
        result = super().__enter__()
        for text in (_DEPRECATED, _UNQUANTIZED):
            warnings.filterwarnings("ignore", text, UserWarning)
        return result
