"""tf.contrib in the test process, which is one of TensorFlow 2.

TensorFlow is imported where it is used: collecting tests needs none.
"""

import contextlib
import importlib

import pytest


@pytest.fixture(autouse=True, scope="session")
def old_private_names():
    """tf_slim needs private names of TensorFlow at their old places, as --tf1 gives them."""
    from estimator_kit.compat import private_paths

    with contextlib.ExitStack() as undo:
        private_paths.install(undo)
        yield


@pytest.fixture
def tf_contrib():
    """The module tensorflow.contrib, importable with what is below it."""
    from estimator_kit.compat import contrib

    with contextlib.ExitStack() as undo:
        contrib.install(undo)
        yield importlib.import_module(contrib.NAME)


@pytest.fixture
def graph():
    """An empty default graph."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default() as made:
        yield made


@pytest.fixture
def run(graph):
    """Runs operations one after the other in one session; returns the values of the last.

    The variables are initialized first.
    """
    import tensorflow.compat.v1 as tf

    def in_session(*fetches):
        with tf.Session(graph=graph) as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for each in fetches:
                result = session.run(each)
        return result

    return in_session
