"""Translates errors of a TensorFlow session: names the record, the loss, or a line of the user.

    with explained(spec, files):
        trained.train(...)

Other errors are not changed. The new error has TensorFlow's error as its cause.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Optional

import tensorflow as tf

from estimator_kit import tensorflow_errors
from estimator_kit.config import user_errors
from estimator_kit.errors import ConfigError, LossError, SessionLost
from estimator_kit.model import user_code
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.optimizers.choice import NOT_FINITE
from estimator_kit.tf_estimator import estimator
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.integrity import diagnosis
from input_pipelines.record_files import tfrecords
from input_pipelines.row_cache.cache import RowCache
from input_pipelines.transform import checks

# The errors of a session for a bad record, or for a loss that is not finite.
_SESSION_ERRORS = (
    *checks.BAD_RECORD_ERRORS,
    estimator.NanLossDuringTrainingError,
)

# Other errors of ops, such as of a lookup table whose file does not exist.
_ERRORS_OF_OPS = (
    tf.errors.FailedPreconditionError,
    tf.errors.AlreadyExistsError,
    tf.errors.UnimplementedError,
    tf.errors.InternalError,
)

# The name of the node that reads a checkpoint.
_RESTORE = "save/RestoreV2"


@contextlib.contextmanager
def explained(
    spec: FeatureSpec,
    paths: list[str],
    *,
    with_labels: bool = True,
    filtered: Optional[bool] = None,
    damaged: tfrecords.Damaged = tfrecords.NO_DAMAGE,
    model: Optional[ModelFn] = None,
    cache: Optional[RowCache] = None,
    remedy: Optional[str] = None,
) -> Iterator[None]:
    """Replaces session errors by DataError or LossError, if they are about data or the loss.

    Args:
      spec: the feature spec.
      paths: the files that the block reads. After an error, they are searched for a bad record.
      with_labels: whether the block also reads labels.
      filtered: see `diagnosis.find_bad_record`.
      damaged: the files whose bad records are skipped.
      model: the model, if it has additional checks of labels.
      cache: the cache that the block reads transformed rows from, if any.
      remedy: see `diagnosis.explain`.
    """
    try:
        yield
    except SessionLost as error:  # With the exit status of a temporary error.
        message = f"{error}. Start again to go on from the last checkpoint."
        raise tf.errors.UnavailableError(None, None, message) from error
    except tf.errors.NotFoundError as error:
        _check_files(paths, error)
        gone = cache.remove_damaged() if cache is not None else None
        if gone is not None:
            raise DataError(gone) from error
        _raise_of_user(error)
        raise
    except _SESSION_ERRORS as error:
        of_model = user_code.check_text(error)
        if of_model is not None:
            raise ConfigError(of_model) from error
        if _RESTORE in str(error):  # The error is about a checkpoint.
            raise
        _check_files(paths, error)
        text = checks.text_of(error)
        reason = diagnosis.find_bad_record(
            spec,
            paths,
            with_labels=with_labels,
            filtered=filtered,
            damaged=damaged,
            also=model.labels_and_weights if model is not None and text is not None else None,
            remedy=remedy,
        )
        # No record is found if files have changed, or if a check looks at several records.
        if reason is not None or text is not None:
            raise DataError(reason or text) from error
        broken = cache.remove_damaged() if cache is not None else None
        if broken is not None:
            raise DataError(broken) from error
        nan_loss = isinstance(error, estimator.NanLossDuringTrainingError)
        if not nan_loss and NOT_FINITE not in str(error):
            _raise_of_user(error)
            raise
        what = "a gradient" if f"{NOT_FINITE}a gradient" in str(error) else "the loss"
        raise LossError(
            f"{what} became NaN or infinite, and the step was not applied. The input is finite. "
            "Lower the learning rate, set the model parameter clip_norm, or look for a division or "
            "logarithm in the model."
        ) from error
    except _ERRORS_OF_OPS as error:
        _raise_of_user(error)
        raise
    except RuntimeError as error:  # See `SessionManager.prepare_session`.
        of_scaffold = model and user_errors.place_of_method(type(model), "scaffold")
        if not of_scaffold or "Init operations did not make model ready" not in str(error):
            raise
        raise ConfigError(
            f"{user_code.name_of(model, 'scaffold')}: its ready_op says that the model is not "
            f"ready: {str(error).rpartition(', error: ')[2]}. Initialize what it waits for in its "
            "init_fn or local_init_op."
        ) from error


def _raise_of_user(error: Exception) -> None:
    """Raises ConfigError with the user's line if the error is of an op that a user's code made."""
    places = user_errors.places_of_op(error)
    if places:
        raise ConfigError(
            f"{' or '.join(places)}: an op that this line makes failed in the session: "
            f"{tensorflow_errors.reason(error)}"
        ) from error


def _check_files(paths: list[str], error: Exception) -> None:
    """Raises DataError if a file was removed after the run had listed its files."""
    gone = [path for path in paths if not tf.io.gfile.exists(path)]
    if gone:
        more = f", and {len(gone) - 1} more," if len(gone) > 1 else ""
        raise DataError(
            f"{gone[0]}{more} existed when the run began, but does not exist anymore. Do not move "
            "or delete files while a run reads them."
        ) from error
