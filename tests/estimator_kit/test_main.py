"""main: what it does around the import of TensorFlow."""

from __future__ import annotations

import gc
import sys

import pytest

from estimator_kit import commands, main

pytestmark = pytest.mark.no_tensorflow


@pytest.fixture
def thawed(monkeypatch):
    """Runs the test as if TensorFlow were not imported, and undoes `gc.freeze` after it."""
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_an_import_makes_is_left_out_of_collections(monkeypatch, thawed):
    collecting = []
    monkeypatch.setattr(commands, "load", lambda mode: collecting.append(gc.isenabled()))
    main.load("train")
    assert collecting == [False] and gc.isenabled() and gc.get_freeze_count() > 0


def test_after_an_import_that_fails_garbage_is_collected_again(monkeypatch, thawed):
    def fails(mode):
        raise ImportError(mode)

    monkeypatch.setattr(commands, "load", fails)
    with pytest.raises(ImportError):
        main.load("train")
    assert gc.isenabled()


def test_who_does_not_collect_is_left_alone(monkeypatch, thawed):
    monkeypatch.setattr(commands, "load", lambda mode: None)
    gc.disable()
    try:
        main.load("train")
        assert not gc.isenabled() and gc.get_freeze_count() == 0
    finally:
        gc.enable()
