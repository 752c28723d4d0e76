"""Names that Python and NumPy removed: added on request, and taken away again."""

from __future__ import annotations

import collections
import collections.abc
import contextlib
import inspect
import sys

import numpy as np
import pytest

from estimator_kit.compat import old_python


@pytest.mark.filterwarnings("ignore:Using or importing the ABCs")
@pytest.mark.filterwarnings("ignore:inspect.getargspec")  # Python 3.9 and 3.10 still have it.
def test_they_come_and_go():
    modules = [inspect, np]
    if sys.version_info >= (3, 10):  # Python 3.9 makes a name of collections when asked for it.
        modules.append(collections)
    before = [set(vars(module)) for module in modules]
    real = np.int64, collections.OrderedDict
    with contextlib.ExitStack() as undo:
        old_python.install(undo)
        assert collections.Iterable is collections.abc.Iterable
        assert issubclass(dict, collections.Mapping)
        assert np.zeros(2, np.int).dtype == np.int64 and np.zeros(2, np.float).dtype == np.float64
        assert np.array([True]).astype(np.bool).dtype == np.bool_
        assert np.array(["a"]).astype(np.object).dtype == np.dtype(object)
        assert np.isnan(np.NaN) and -np.inf == np.NINF and np.float_(1) == 1.0
        assert np.asscalar(np.array([3])) == 3
        assert list(inspect.getargspec(lambda a, b=1, *c, **d: a)) == [["a", "b"], "c", "d", (1,)]
        assert (np.int64, collections.OrderedDict) == real
    assert [set(vars(module)) for module in modules] == before


@pytest.mark.skipif(sys.version_info < (3, 10), reason="older Pythons have it")
def test_without_a_request_nothing_is_added():
    assert not hasattr(collections, "Iterable")
