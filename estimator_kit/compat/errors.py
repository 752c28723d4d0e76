"""The error of this package.

In the kit it is the error of `estimator_kit.errors`, so that one `except` catches it. Installed
alone, as `estimator_kit_compat`, the package has its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__ == "estimator_kit.compat":
    from estimator_kit.errors import UnsupportedTensorFlowError as UnsupportedTensorFlowError
else:

    class UnsupportedTensorFlowError(RuntimeError):
        """The installed TensorFlow, or a package with it, cannot run tensorflow-estimator.

        This is not an `ImportError`, so `except ImportError:` around an optional import cannot hide
        it.
        """
