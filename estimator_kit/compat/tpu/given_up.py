"""TPUEstimator on a TensorFlow that lacks what it imports: an error when it is made.

tensorflow-estimator always imports TPUEstimator. So before that import, two modules of TPUEstimator
get stand-ins. TPUConfig and RunConfig stay, because they only hold settings. TensorFlow 2.21 does
not need this.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

from .stand_ins import StandIn

_PACKAGE = "tensorflow_estimator.python.estimator.tpu"
_MODULES = ("tpu_estimator", "_tpu_estimator_embedding")


def give_up_tpu_estimator(undo: contextlib.ExitStack, problems: Sequence[str]) -> None:
    """Adds the stand-ins; `undo` removes them.

    Args:
      undo: what a failed installation closes.
      problems: what is missing, one sentence each.
    """
    why = (
        f"this TensorFlow cannot run TPUEstimator: {'; '.join(problems)}. Use "
        "tf.estimator.Estimator, or an older TensorFlow."
    )
    for name in _MODULES:
        path = f"{_PACKAGE}.{name}"
        sys.modules[path] = StandIn(path, why)
        undo.callback(sys.modules.pop, path, None)


def is_given_up() -> bool:
    """Whether TPUEstimator has a stand-in in this process."""
    return isinstance(sys.modules.get(f"{_PACKAGE}.{_MODULES[0]}"), StandIn)
