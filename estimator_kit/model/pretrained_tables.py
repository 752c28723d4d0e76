"""Loads pretrained vectors into embedding tables when a new training starts.

`check` reads the files and logs their content, before anything is written. `load` assigns a table
when the session starts, for `initial_values`. A training that continues from a checkpoint, an
evaluation and an export read no file. Variables of a warm start are not changed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model.gathers import TABLE, pretrained_variables
from estimator_kit.optimizers.moving_average import assign
from feature_specs.embeddings import initial_values, pretrained_files
from feature_specs.errors import Problem, SpecError
from feature_specs.kinds import Embedding
from feature_specs.spec import FeatureSpec

logger = logging.getLogger(__name__)


def check(
    spec: FeatureSpec, variables: Collection[str], restored: Collection[str] = frozenset()
) -> None:
    """Reads every table once and logs how many of its ids have a vector.

    Args:
      spec: the feature spec.
      variables: the names of the variables of the training.
      restored: the names of variables that a warm start takes completely.

    Raises:
      ConfigError: FTRL trains such a table, and its slots are new. It computes a weight from the
        gradients that it has seen, so the first step would replace the vectors.
      SpecError: files do not exist or do not fit their columns. `problems` lists all of them.
    """
    _check_ftrl(spec, {*variables} - {*restored})
    problems: list[Problem] = []
    for name in pretrained_files.columns_with(spec):
        try:
            table = initial_values.read(spec, name)
        except SpecError as error:
            problems += error.problems
            continue
        ids_with_vector, size = int(table.known.sum()), len(table.known)
        logger.info(
            "column %s: %s of %s ids start from pretrained vectors, %s from the initializer%s",
            name,
            f"{ids_with_vector:,}",
            f"{size:,}",
            f"{size - ids_with_vector:,}",
            f"; {table.unused:,} vectors are for words outside the vocabulary"
            if table.unused
            else "",
        )
        warning = pretrained_files.frozen_warning(spec, name, ids_with_vector)
        if warning is not None:
            logger.warning("%s", warning)
    if problems:
        raise SpecError(spec.source, problems)


def _check_ftrl(spec: FeatureSpec, new: Collection[str]) -> None:
    """Refuses tables for which FTRL has new slots."""
    for name in pretrained_files.columns_with(spec):
        table = spec.of_kind(Embedding)[name].table or f"{spec.canned_name(name)}/{TABLE}"
        slots = (f"/{table}/Ftrl", f"/{table}/Ftrl_1")
        if any(f"/{variable}".endswith(slots) for variable in new):
            raise ConfigError(
                f"column {name!r}: the optimizer ftrl would replace its pretrained vectors at the "
                "first step, because it computes weights from gradients only. Use another "
                "optimizer for this table, or trainable: false."
            )


def tables(spec: FeatureSpec, restored: Collection[str]) -> dict[str, Any]:
    """The variables of the current graph that start from a file, by column name.

    Args:
      spec: the feature spec.
      restored: the names of variables that a warm start takes completely. They are left out.
    """
    variables = pretrained_variables(tf.compat.v1.get_default_graph())
    return {
        name: variables[name]
        for name in pretrained_files.columns_with(spec)
        if name in variables and variables[name].op.name not in restored
    }


def load(spec: FeatureSpec, name: str, variable: Any, session: tf.compat.v1.Session) -> None:
    """Assigns the vectors of a column to its table. Ids without a vector keep their values."""
    table = initial_values.read(spec, name)
    values = np.where(table.known[:, np.newaxis], table.values, session.run(variable))
    assign(session, variable, values)
