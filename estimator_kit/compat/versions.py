"""Checks the installed packages: can tensorflow-estimator 2.15.0 run with them?

It reads versions from package metadata, so it knows them before TensorFlow is imported. Only before
that import can legacy Keras be chosen without side effects. This module never imports TensorFlow
and never changes anything.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import re
import sys
from typing import Optional

Minor = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class SupportedRange:
    """TensorFlow minor versions, with both ends, with which the tests of this package pass."""

    first: Minor
    last: Minor

    def __str__(self) -> str:
        return "{}.{} to {}.{}".format(*self.first, *self.last)

    def __contains__(self, minor: Minor) -> bool:
        return self.first <= minor <= self.last


SUPPORTED = SupportedRange(first=(2, 15), last=(2, 21))

# TensorFlow 2.15 is the last version with its own tf.estimator.
LAST_WITH_ESTIMATOR: Minor = (2, 15)

ESTIMATOR_VERSION = "2.15.0"

# The packages that install the `tensorflow` module. Any other one is found by importing it.
_DISTRIBUTIONS = (
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-cpu-aws",
    "tensorflow-intel",
    "tensorflow-macos",
    "tensorflow-rocm",
    "tf-nightly",
    "tf-nightly-cpu",
)

# Packages that pip installs together with a TensorFlow with which they fail:
# (TensorFlow minor version, package, first major version that fails, symptom).
_CONFLICTS: tuple[tuple[Minor, str, int, str], ...] = (
    ((2, 20), "protobuf", 7, "training cannot write its graph.pbtxt"),
)


def minor_of(version: str) -> Minor:
    """The minor version: (2, 21) of "2.21.0" or "2.21.0-rc1".

    Raises:
      ValueError: `version` does not start with two numbers.
    """
    match = re.match(r"(\d+)\.(\d+)", version)
    if not match:
        raise ValueError(f"version: expected one like '2.21.0', got {version!r}")
    return int(match[1]), int(match[2])


@dataclasses.dataclass(frozen=True)
class Installed:
    """The versions of relevant packages; None for a package that is not installed.

    Attributes:
      tensorflow: also None if TensorFlow is installed under an unknown package name and has not
        been imported yet.
    """

    tensorflow: Optional[str]
    tensorflow_estimator: Optional[str]
    tf_keras: Optional[str]
    protobuf: Optional[str]

    @property
    def has_own_estimator(self) -> bool:
        """Whether TensorFlow has its own tf.estimator, so nothing needs to be installed."""
        return self.tensorflow is not None and minor_of(self.tensorflow) <= LAST_WITH_ESTIMATOR


def read() -> Installed:
    """The versions in this process. If TensorFlow is imported, its own version counts."""
    tensorflow = getattr(sys.modules.get("tensorflow"), "__version__", None)
    return Installed(
        tensorflow=tensorflow or _first_version(*_DISTRIBUTIONS),
        tensorflow_estimator=_first_version("tensorflow-estimator"),
        tf_keras=_first_version("tf_keras"),
        protobuf=_first_version("protobuf"),
    )


def problems(installed: Installed) -> list[str]:
    """The problems of these versions, each as a sentence with its remedy.

    A TensorFlow newer than `SUPPORTED` is allowed here; private_names.py checks its names.
    """
    assert installed.tensorflow is not None
    minor = minor_of(installed.tensorflow)
    messages = []
    if minor < SUPPORTED.first:
        first = "{}.{}".format(*SUPPORTED.first)
        return [
            f"this TensorFlow is older than {first}. Upgrade it with "
            f'`pip install "tensorflow>={first}"`.'
        ]
    if installed.tensorflow_estimator != ESTIMATOR_VERSION:
        messages.append(
            f"expected tensorflow-estimator {ESTIMATOR_VERSION}, got "
            f"{installed.tensorflow_estimator or 'none'}. Install it with "
            f"`pip install tensorflow-estimator=={ESTIMATOR_VERSION}`."
        )
    for with_minor, package, first_failing, seen in _CONFLICTS:
        version = getattr(installed, package)
        if minor == with_minor and version and int(version.split(".")[0]) >= first_failing:
            messages.append(
                f"{package} {version} does not work with this TensorFlow ({seen}). Install an "
                f'older version with `pip install "{package}<{first_failing}"`.'
            )
    return messages


def _first_version(*packages: str) -> Optional[str]:
    for package in packages:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None
