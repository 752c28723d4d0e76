"""What an export that cannot be used raises: `ExportError`, whatever TensorFlow raises for it.

    with loading.as_export_error(f"--export_dir={path} does not load"):
        loaded = tf.saved_model.load(path)

A damaged graph is read by code that expects a whole one, so its errors are of any type. Loads
nothing itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from estimator_kit import exit_codes
from estimator_kit.errors import ExportError
from estimator_kit.tensorflow_errors import reason


@contextlib.contextmanager
def as_export_error(
    sentence: str, errors: tuple[type[Exception], ...] = (Exception,)
) -> Iterator[None]:
    """Raises ExportError in place of these errors, but for those that have a status of their own.

    Args:
      sentence: what the export does not do; the reason comes behind it.
      errors: the types. All of them are for blocks that do nothing but load.
    """
    try:
        yield
    except errors as error:
        if exit_codes.exit_code(error) != exit_codes.BUG:
            raise
        said = reason(error) or type(error).__name__
        raise ExportError(f"{sentence}: {said}; export again, or name another one") from error
