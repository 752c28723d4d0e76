"""How a start differs from the last start of its model directory.

`flags.txt`, `model_params.json` and `feature_spec` tell what the last start was made from. A start
that begins replaces them, so each change is found once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection

from estimator_kit.checkpoints import run_record
from estimator_kit.config.mode_configs import ModelDirConfig
from estimator_kit.config.settings import counted
from estimator_kit.model.model_fn import ModelFn
from feature_specs.meaning import compared
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("estimator_kit")


def changes(
    config: ModelDirConfig, spec: FeatureSpec, model: ModelFn, aspects: Collection[str]
) -> list[str]:
    """A sentence for each setting, parameter of the model and field of the spec that differs.

    Only those count that change one of these aspects.
    """
    folder = os.path.join(config.model_dir, "feature_spec")
    return [
        *run_record.changed_flags(config, counted(config.mode, aspects)),
        *run_record.params_changes(config.model_dir, model.params, aspects),
        *run_record.changes_since(folder, spec, aspects),
    ]


def other_outputs(config: ModelDirConfig, spec: FeatureSpec, model: ModelFn) -> list[str]:
    """How the outputs of the exports that training writes differ; empty if it writes none."""
    if config.mode == "train" or not config.exporters:
        return []
    return changes(config, spec, model, compared.EXPORTS.aspects)


def say_changes(config: ModelDirConfig, spec: FeatureSpec, model: ModelFn, step: int) -> None:
    """Logs how a training that goes on at a step finds its numbers otherwise than before."""
    found = changes(config, spec, model, compared.RESUMED.aspects)
    if found:
        _log.info("training goes on at step %d otherwise than before: %s", step, "; ".join(found))
