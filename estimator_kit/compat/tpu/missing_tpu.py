"""The error of `use_tpu=True` on a machine without a TPU.

TPUEstimator looks for TPUs when it starts to train, evaluate or predict on them. It does not when
it is made, when it exports, or when it evaluates with `eval_on_tpu=False`: these need no TPU, with
any TensorFlow. So the method that decides between TPU and CPU is wrapped. If it finds no TPU, the
error is an UnsupportedTensorFlowError that says what to do. Its result, and its errors about a
configuration (ValueError), are passed on unchanged.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any

from ..errors import UnsupportedTensorFlowError

_MODULE = "tensorflow_estimator.python.estimator.tpu.tpu_context"
_METHOD = "is_running_on_cpu"


def explain_missing_tpu(undo: contextlib.ExitStack) -> None:
    """Wraps the method; `undo` restores it."""
    context = importlib.import_module(_MODULE)._InternalTPUContext
    original = getattr(context, _METHOD)

    @functools.wraps(original)
    def is_running_on_cpu(self: Any, is_export_mode: bool = False) -> Any:
        try:
            return original(self, is_export_mode)
        except ValueError:
            raise
        except Exception as error:
            raise UnsupportedTensorFlowError(
                "TPUEstimator: use_tpu=True: found no TPU. Set use_tpu=False to use CPUs and GPUs. "
                "For TPUs, stay on TensorFlow 2.15. The error of TensorFlow: "
                f"{type(error).__name__}: {error}"
            ) from error

    setattr(context, _METHOD, is_running_on_cpu)
    undo.callback(setattr, context, _METHOD, original)
