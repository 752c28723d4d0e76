"""What tests of Beam pipelines share: whether Beam is there, and flags for this machine."""

from __future__ import annotations

import importlib.util

import pytest

needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None,
    reason="apache-beam is not installed; beside TensorFlow 2.15 `make install` does that",
)

# The second keeps it in this process: another engine would be looked for on the network.
FLAGS = ("--runner=DirectRunner", "--allow_unsafe_triggers")
