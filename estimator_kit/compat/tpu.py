"""Empty stand-ins for the TPU part of tensorflow-estimator.

TensorFlow 2.16 removed the TPU embedding and session modules that `TPUEstimator` needs, but
`import tensorflow_estimator` still imports it. On 2.16 and later TPUEstimator is not supported.
Before anything imports them, two modules of tensorflow-estimator are replaced. The classes in the
replacements can be imported and subclassed, but making an object raises a clear error.

No module of TensorFlow is replaced. `tf.compat.v1.estimator.tpu.RunConfig`, `TPUConfig` and
`InputPipelineConfig` are the real classes, because they only hold settings.
"""

from __future__ import annotations

import contextlib
import sys
from types import ModuleType
from typing import Any

from estimator_kit.errors import UnsupportedTensorFlowError

_PACKAGE = "tensorflow_estimator.python.estimator.tpu"

# Stand-in module -> the classes that tensorflow-estimator's API takes from it.
_STAND_INS: dict[str, tuple[str, ...]] = {
    f"{_PACKAGE}.tpu_estimator": ("TPUEstimator", "TPUEstimatorSpec"),
    f"{_PACKAGE}._tpu_estimator_embedding": ("EmbeddingConfigSpec",),
}


def install(undo: contextlib.ExitStack, *, tensorflow_version: str) -> None:
    """Installs the stand-in modules; `undo` removes them."""
    for name, classes in _STAND_INS.items():
        if name in sys.modules:
            continue
        module = ModuleType(name, f"Stand-in for {name}, not supported after TensorFlow 2.15.")
        for class_name in classes:
            setattr(module, class_name, _given_up(class_name, name, tensorflow_version))
        sys.modules[name] = module
        undo.callback(sys.modules.pop, name, None)


def _given_up(name: str, module: str, tensorflow_version: str) -> type:
    message = (
        f"{name} is not available on TensorFlow {tensorflow_version}: TensorFlow removed the TPU "
        "code that it needs after 2.15. Use tf.estimator.Estimator on CPUs and GPUs, or stay on "
        "TensorFlow 2.15 for TPUs."
    )

    def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedTensorFlowError(message)

    return type(name, (), {"__new__": refuse, "__doc__": message, "__module__": module})
