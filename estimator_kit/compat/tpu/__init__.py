"""TPUEstimator on CPUs and GPUs, with `use_tpu=False`.

tensorflow-estimator's own TPUEstimator is used, unmodified. What it and its programs need and
TensorFlow 2.16 removed is added:

- removed_modules.py: the modules that TPUEstimator imports; async_checkpoint.py is one of them;
- embedding_parameters.py: the settings of TPU embeddings in TensorFlow's public API;
  embedding_configs.py: more of them, which are private names of TensorFlow;
- old_paths.py: the names under which programs import TPUEstimator;
- missing_tpu.py: the error of `use_tpu=True` without a TPU.

private_names.py lists what TPUEstimator imports and TensorFlow still has. If a later TensorFlow
lacks some of it, given_up.py leaves TPUEstimator out.
"""

from __future__ import annotations

import contextlib

from ..private_names import missing
from .embedding_parameters import install_embedding_parameters
from .given_up import give_up_tpu_estimator, is_given_up
from .missing_tpu import explain_missing_tpu
from .old_paths import install_old_paths
from .private_names import NAMES
from .removed_modules import install_removed_modules


def install_before_estimator(undo: contextlib.ExitStack) -> None:
    """Adds what the import of tensorflow-estimator needs; `undo` removes it."""
    install_embedding_parameters(undo)
    problems = missing(NAMES)
    if problems:
        give_up_tpu_estimator(undo, problems)
    else:
        install_removed_modules(undo)


def install_after_estimator(undo: contextlib.ExitStack) -> None:
    """Adds what leads to modules of tensorflow-estimator; `undo` removes it."""
    if not is_given_up():
        install_old_paths(undo)
        explain_missing_tpu(undo)
