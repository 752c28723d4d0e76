"""tf_slim needs private names of TensorFlow at their old places, as the launcher gives them."""

import contextlib

import pytest


@pytest.fixture(autouse=True, scope="session")
def old_private_names():
    from estimator_kit.compat import private_paths

    with contextlib.ExitStack() as undo:
        private_paths.install(undo)
        yield
