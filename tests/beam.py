"""Shared by tests of Beam pipelines: whether Beam is installed, and flags for this machine."""

from __future__ import annotations

import importlib.util

import pytest

needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None,
    reason="apache-beam is not installed; `make install TF=2.15` installs it",
)

# The second flag keeps the pipeline in this process; Beam would look for another engine online.
FLAGS = ("--runner=DirectRunner", "--allow_unsafe_triggers")
