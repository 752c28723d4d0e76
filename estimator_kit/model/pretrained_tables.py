"""Puts pretrained vectors into embedding tables when a training starts from nothing.

`check` reads the files and says what they hold, before anything is written; `load` puts a table
into the session that starts, for `initial_values`. A start from a checkpoint, an evaluation and an
export read no file. What a warm start takes is left as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.model.gathers import pretrained_variables
from estimator_kit.optimizers.assignment import assign
from feature_specs.embeddings import pretrained, pretrained_files
from feature_specs.errors import Problem, SpecError
from feature_specs.spec import FeatureSpec

logger = logging.getLogger(__name__)


def check(spec: FeatureSpec) -> None:
    """Reads every table once and logs how much of it is known.

    Raises:
      SpecError: files are missing or do not fit their columns; its `problems` list them all.
    """
    problems: list[Problem] = []
    for name in pretrained_files.columns_with(spec):
        try:
            table = pretrained.read(spec, name)
        except SpecError as error:
            problems += error.problems
            continue
        known, size = int(table.known.sum()), len(table.known)
        logger.info(
            "column %s: %s of %s ids start from pretrained vectors, %s from the initializer%s",
            name,
            f"{known:,}",
            f"{size:,}",
            f"{size - known:,}",
            f"; {table.unused:,} vectors are of words outside the vocabulary"
            if table.unused
            else "",
        )
        warning = pretrained_files.frozen_warning(spec, name, known)
        if warning is not None:
            logger.warning("%s", warning)
    if problems:
        raise SpecError(spec.source, problems)


def tables(spec: FeatureSpec, restored: Collection[str]) -> dict[str, Any]:
    """The variables of the current graph that start from a file, by their columns.

    Args:
      spec: the feature spec.
      restored: names of variables that a warm start takes whole; these are left out.
    """
    found = pretrained_variables(tf.compat.v1.get_default_graph())
    return {
        name: found[name]
        for name in pretrained_files.columns_with(spec)
        if name in found and found[name].op.name not in restored
    }


def load(spec: FeatureSpec, name: str, variable: Any, session: tf.compat.v1.Session) -> None:
    """Puts the vectors of a column into its table; ids without one stay as they are."""
    table = pretrained.read(spec, name)
    values = np.where(table.known[:, np.newaxis], table.values, session.run(variable))
    assign(session, variable, values)
