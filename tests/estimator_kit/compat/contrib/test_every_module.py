"""Each module of tf.contrib has its public names, and a remedy only for a name that it lacks."""

import importlib

import pytest

from estimator_kit.compat import contrib
from estimator_kit.compat.contrib._remedies import FOR_MODULES

MODULES = contrib.modules()


def home(name):
    return importlib.import_module(f"{contrib.__name__}.{name}")


@pytest.mark.parametrize("module", MODULES)
def test_has_every_public_name(module):
    lacking = [name for name in home(module).__all__ if not hasattr(home(module), name)]
    assert lacking == []


@pytest.mark.parametrize("module", MODULES)
def test_lacks_every_name_that_has_a_remedy(module):
    remedies = getattr(home(module), "REMEDIES", {})
    assert [name for name in remedies if hasattr(home(module), name)] == []
    assert [name for name, remedy in remedies.items() if not remedy.endswith(".")] == []


@pytest.mark.parametrize("module", MODULES)
def test_imports_each_module_that_an_old_path_shows(module):
    paths = getattr(home(module), "OLD_PATHS", ())
    for shown in paths.values() if isinstance(paths, dict) else ():
        assert shown is None or importlib.import_module(shown)


def test_has_no_remedy_for_a_module_that_is_here():
    assert sorted(set(FOR_MODULES) & set(MODULES)) == []
