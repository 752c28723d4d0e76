"""Turns errors of TensorFlow about an export that cannot be used into `ExportError`.

    with loading.as_export_error(f"--export_dir={path} does not load"):
        loaded = tf.saved_model.load(path)

The code that reads a damaged graph expects a complete one, so it can raise any type of error. This
module loads nothing itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from estimator_kit import exit_codes
from estimator_kit.errors import ExportError, tensorflow_reason


@contextlib.contextmanager
def as_export_error(
    sentence: str, errors: tuple[type[Exception], ...] = (Exception,)
) -> Iterator[None]:
    """Raises ExportError in place of these errors, except those with their own exit status.

    Args:
      sentence: what the export cannot do; the message continues with the reason.
      errors: the types of errors. Use the default only for blocks that do nothing but load.
    """
    try:
        yield
    except errors as error:
        if exit_codes.exit_code(error) != exit_codes.BUG:
            raise
        said = tensorflow_reason(error) or type(error).__name__
        said = said.rstrip(".")
        raise ExportError(f"{sentence}: {said}. Use another version, or export again.") from error
