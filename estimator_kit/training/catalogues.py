"""Gives a model the catalogue that its evaluations rank (`model.catalogue`).

    catalogues.read(command, spec, model, train_files, screened)     # a training that evaluates
    catalogues.store(model, model_dir)                               # for later evaluations
    catalogues.load(model, model_dir)                                # `--mode=evaluate`

Models without `catalogue_columns` have none, and nothing is read.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from estimator_kit.config.modes import OneModel
from estimator_kit.model import catalogue
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.model.session_errors import explained
from estimator_kit.training.bad_data import Screened
from estimator_kit.training.eval_input import FLAG
from feature_specs.errors import counted
from feature_specs.spec import FeatureSpec

_log = logging.getLogger("estimator_kit")


def read(
    command: OneModel,
    spec: FeatureSpec,
    model: ModelFn,
    train_files: Sequence[str],
    screened: Screened,
) -> None:
    """Reads the items of the training and the evaluation files, once.

    Raises:
      DataError: a record cannot be used.
    """
    columns = model.catalogue_columns
    if columns is None:
        return
    if command.data.input_fn is not None:
        _log.warning(
            "%s: the metrics of the catalogue (recall_at) need --train_files, which tell what the "
            "items are. A run with --input_fn does not report them.",
            command.choice.model,
        )
        return
    damaged = screened.damaged
    of_sets = [paths for flag, paths in screened.files.items() if flag.startswith(FLAG)]
    eval_files = [path for paths in of_sets for path in paths]
    with explained(spec, [*train_files, *eval_files], damaged=damaged):
        model.catalogue = catalogue.read(spec, columns, train_files, eval_files, damaged=damaged)
    _log.info(
        "evaluations rank %s of the training and evaluation files",
        counted(model.catalogue.size, "item"),
    )


def store(model: ModelFn, model_dir: str) -> None:
    """Writes `catalogue.npz`, if the model has a catalogue."""
    if model.catalogue is not None:
        model.catalogue.save(model_dir)


def load(model: ModelFn, model_dir: str) -> None:
    """Reads the catalogue that a training stored.

    Raises:
      ConfigError: the file is damaged.
    """
    if model.catalogue_columns is None:
        return
    model.catalogue = catalogue.load(model_dir, model.spec, model.catalogue_columns)
    if model.catalogue is None:
        _log.warning(
            "%s does not exist, so the metrics of the catalogue (recall_at) are left out. "
            "--mode=train_and_evaluate writes it.",
            os.path.join(model_dir, catalogue.FILE),
        )
