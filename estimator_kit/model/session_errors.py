"""Errors of a TensorFlow session in the words of the kit: which record was bad, or which loss.

    with explained(spec, files):
        trained.train(...)

Changes no error that means neither; what it raises keeps TensorFlow's error as its cause.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Optional

import tensorflow as tf

from estimator_kit.compat.tf_estimator import estimator
from estimator_kit.errors import LossError
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.optimizers.choice import NOT_FINITE
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.integrity import diagnosis
from input_pipelines.record_files import tfrecords
from input_pipelines.row_cache.cache import RowCache
from input_pipelines.transform import checks

# What a session raises for a bad record, and for a loss that is not finite.
_SESSION_ERRORS = (
    *checks.BAD_RECORD_ERRORS,
    estimator.NanLossDuringTrainingError,
)

# How TensorFlow calls the node that reads a checkpoint.
_RESTORE = "save/RestoreV2"


@contextlib.contextmanager
def explained(
    spec: FeatureSpec,
    paths: list[str],
    *,
    with_labels: bool = True,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    model: Optional[ModelFn] = None,
    cache: Optional[RowCache] = None,
    missing_label: Optional[str] = None,
) -> Iterator[None]:
    """Raises DataError or LossError in place of an error of the session that means one.

    Args:
      spec: the feature spec.
      paths: the files that the block reads; searched for a bad record after an error.
      with_labels: whether the block reads labels too.
      damaged: those of which bad records are left out.
      model: what checks labels of its own, if it does.
      cache: what transformed rows are read from, if they are.
      missing_label: see `diagnosis.explain`.
    """
    try:
        yield
    except tf.errors.NotFoundError as error:
        _check_files(paths, error)
        gone = cache.remove_damaged() if cache is not None else None
        if gone is None:
            raise
        raise DataError(gone) from error
    except _SESSION_ERRORS as error:
        if _RESTORE in str(error):  # Of a checkpoint, not of a record.
            raise
        _check_files(paths, error)
        text = checks.text_of(error)
        reason = diagnosis.find_bad_record(
            spec,
            paths,
            with_labels=with_labels,
            damaged=damaged,
            also=model.labels_and_weights if model is not None and text is not None else None,
            missing_label=missing_label,
        )
        # None is found where files have changed, or the check is of several records.
        if reason is not None or text is not None:
            raise DataError(reason or text) from error
        broken = cache.remove_damaged() if cache is not None else None
        if broken is not None:
            raise DataError(broken) from error
        nan_loss = isinstance(error, estimator.NanLossDuringTrainingError)
        if not nan_loss and NOT_FINITE not in str(error):
            raise
        what = "a gradient" if f"{NOT_FINITE}a gradient" in str(error) else "the loss"
        raise LossError(
            f"{what} became NaN or infinite, and the step was not applied; the input is finite, "
            "so lower the learning rate, set the model parameter clip_norm, or look for a "
            "division or logarithm in the model"
        ) from error


def _check_files(paths: list[str], error: Exception) -> None:
    """Raises DataError if a file is gone since the run looked for files."""
    gone = [path for path in paths if not tf.io.gfile.exists(path)]
    if gone:
        more = f", and {len(gone) - 1} more," if len(gone) > 1 else ""
        raise DataError(
            f"{gone[0]}{more} cannot be found, and was there when the run began; leave files where "
            "they are as long as a run reads them"
        ) from error
