"""The Scaffold of a model: what TensorFlow runs when it makes a session.

A model gives its parts in `ModelFn.scaffold`, and the kit adds its own start values and averages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config import user_errors
from estimator_kit.errors import ConfigError
from estimator_kit.model import user_code
from estimator_kit.model.modes.prediction import Model


def checked_scaffold(model: Model, mode: str) -> Optional[Any]:
    """The result of `ModelFn.scaffold`.

    Raises:
      ConfigError: it is something else than a Scaffold, or has a Saver.
    """
    place = f"{type(model).__name__}.scaffold"
    with user_code.explained(model, "scaffold"):
        return _checked(place, model.scaffold(mode))


def _checked(place: str, returned: Any) -> Optional[Any]:
    if returned is None:
        return None
    if not isinstance(returned, tf.compat.v1.train.Scaffold):
        raise ConfigError(
            f"{place}: expected a tf.compat.v1.train.Scaffold or None, got {returned!r}. Return "
            "one of them."
        )
    if returned.saver is not None:
        raise ConfigError(
            f"{place}: got a saver, but restarts, exports and warm starts rely on the kit's own. "
            "Remove it, and add what else a checkpoint should store to the graph collection "
            "tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS."
        )
    graph = tf.compat.v1.get_default_graph()
    for fed in (*(returned.init_feed_dict or ()), *(returned.local_init_feed_dict or ())):
        graph.as_graph_element(fed)  # Raises an error if the graph does not have it.
    return returned


def run_init_fn(init_fn: Callable[[Any, Any], None], scaffold: Any, session: Any) -> None:
    """Calls the `init_fn` of a model.

    Raises:
      ConfigError: it raised an error that has no separate exit status.
    """
    try:
        init_fn(scaffold, session)
    except Exception as error:
        if user_errors.has_status(error):
            raise
        place = user_errors.place_of(error)
        raise ConfigError(
            f"{f'{place}: ' if place else ''}the init_fn of the scaffold raised "
            f"{user_errors.text_of(error)} Mend it, or catch the error in it."
        ) from error


def merged(
    own: Optional[Any],
    *,
    init_fn: Optional[Callable[[Any, Any], None]] = None,
    saver: Optional[Any] = None,
) -> Optional[Any]:
    """The Scaffold of a graph, or None if nobody needs one.

    Args:
      own: the Scaffold of the model. Its `local_init_op` runs together with the op that initializes
        the local variables and tables of the graph.
      init_fn: replaces the function of the model, and calls it.
      saver: the kit's own Saver.
    """
    scaffold = tf.compat.v1.train.Scaffold
    if own is None:
        if init_fn is None and saver is None:
            return None
        return scaffold(init_fn=init_fn, saver=saver)
    local = own.local_init_op
    if local is not None:
        local = tf.group(scaffold.default_local_init_op(), local)
    return scaffold(init_fn=init_fn, saver=saver, local_init_op=local, copy_from_scaffold=own)
