"""Empty stand-ins for the TPU part of tensorflow-estimator.

TensorFlow 2.16 removed the TPU embedding and session modules that `TPUEstimator` stands on, yet
`import tensorflow_estimator` imports it. On 2.16 and later TPUEstimator is given up: two modules of
tensorflow-estimator are replaced, before anything imports them, by ones whose classes can be
imported and named, and which fail with a clear error when one is made or subclassed and made.

It never stands in for a module of TensorFlow. `tf.compat.v1.estimator.tpu.RunConfig`, `TPUConfig`
and `InputPipelineConfig` are the real ones, since they only hold settings.
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
    """Puts the stand-in modules in place; `undo` takes them away."""
    for name, classes in _STAND_INS.items():
        if name in sys.modules:
            continue
        module = ModuleType(name, f"Stand-in for {name}, given up after TensorFlow 2.15.")
        for class_name in classes:
            setattr(module, class_name, _given_up(class_name, name, tensorflow_version))
        sys.modules[name] = module
        undo.callback(sys.modules.pop, name, None)


def _given_up(name: str, module: str, tensorflow_version: str) -> type:
    message = (
        f"{name} is not available on TensorFlow {tensorflow_version}: TensorFlow removed the TPU "
        "code it stands on after 2.15. Use tf.estimator.Estimator on CPUs and GPUs, or stay on "
        "TensorFlow 2.15 for TPUs."
    )

    def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedTensorFlowError(message)

    return type(name, (), {"__new__": refuse, "__doc__": message, "__module__": module})
