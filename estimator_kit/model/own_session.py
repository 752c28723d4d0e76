"""What a model adds to a session: its hooks and its Scaffold; and the end of the input.

TensorFlow ends a training, an evaluation or a prediction without an error when any code of a step
raises `OutOfRangeError` or `StopIteration`, since its readers end in this way. So a second data set
that ends in `logits`, or a bare `next()` in a hook, would leave out the remaining rows, and nothing
would report it. Here only the input ends a loop. Everything else is an error that names its place.

A model gives the parts of its Scaffold in `ModelFn.scaffold`, and the kit adds its own start values
and averages.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config import user_errors
from estimator_kit.errors import ConfigError, SessionLost
from estimator_kit.model import user_code
from estimator_kit.model.modes.prediction import Hook, Model
from estimator_kit.tf_estimator import ModeKeys

_log = logging.getLogger("estimator_kit")

# After these errors TensorFlow ends the loop, or makes another session.
_ENDS = (StopIteration, tf.errors.OutOfRangeError)
_LOSSES = (tf.errors.AbortedError, tf.errors.UnavailableError)

_READERS = ("IteratorGetNext", "IteratorGetNextAsOptional", "IteratorGetNextSync")


def readers() -> frozenset[str]:
    """The names of the ops of the current graph that read the input.

    Call it before the model adds ops. The set is empty if the input is not a `tf.data.Dataset`.
    """
    ops = tf.compat.v1.get_default_graph().get_operations()
    return frozenset(op.name for op in ops if op.type in _READERS)


def checked_hooks(model: Model, mode: str) -> list[Hook]:
    """The hooks that the model adds to a training or an evaluation.

    Raises:
      ConfigError: `ModelFn.hooks` returned something else than hooks.
    """
    place = f"{type(model).__name__}.hooks"
    with user_code.explained(model, "hooks"):
        return [OwnHook(hook, place, mode) for hook in _listed(place, model.hooks(mode))]


def _listed(place: str, returned: Any) -> list[Hook]:
    remedy = "Return a list of hooks."
    if returned is None:  # As in `EstimatorSpec`, for example after an `if` on the mode.
        return []
    if isinstance(returned, tf.compat.v1.train.SessionRunHook):
        raise ConfigError(f"{place}: expected a list, got one hook, {returned!r}. {remedy}")
    try:
        hooks = list(returned)
    except TypeError as error:
        raise ConfigError(f"{place}: expected a list, got {returned!r}. {remedy}") from error
    for hook in hooks:
        if not isinstance(hook, tf.compat.v1.train.SessionRunHook):
            raise ConfigError(
                f"{place}: expected SessionRunHook objects, got {hook!r}. Return a list of objects "
                "of classes that extend tf.compat.v1.train.SessionRunHook."
            )
    return hooks


class OwnHook(tf.compat.v1.train.SessionRunHook):
    """Calls a hook of a model, and explains what would end the loop.

    Args:
      hook: the hook of the model.
      place: the class and method that made it, for messages.
      mode: a training may be ended by a hook. An evaluation may not, because metrics of a part of
        the rows would choose another best model.
    """

    def __init__(self, hook: Hook, place: str, mode: str):
        self._hook, self._mode = hook, mode
        self._name = f"{place}: {type(hook).__name__}"
        self._coord: Optional[Any] = None

    def begin(self) -> None:
        before = {v.op.name for v in tf.compat.v1.global_variables()}
        self._call("begin")
        added = {v.op.name for v in tf.compat.v1.global_variables()} - before
        if added:
            raise ConfigError(
                f"{self._name}.begin makes the variable {min(added)}, which would be in the "
                "checkpoint, but not in the model that the next start compares with it. Make it in "
                "ModelFn.hooks, or make a local variable."
            )

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._coord = coord
        self._call("after_create_session", session, coord)

    def before_run(self, run_context: Any) -> Any:
        return self._call("before_run", run_context, context=run_context)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._call("after_run", run_context, run_values, context=run_context)

    def end(self, session: Any) -> None:
        self._call("end", session)

    def _call(self, method: str, *arguments: Any, context: Optional[Any] = None) -> Any:
        before = self._is_stopped(context)
        try:
            returned = getattr(self._hook, method)(*arguments)
            if method == "before_run":
                _check_asked(returned, arguments[0].session.graph)
        except Exception as error:
            if user_errors.has_status(error) and not isinstance(error, (*_ENDS, *_LOSSES)):
                raise
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            place = user_errors.place_of(error)
            place = place or user_errors.place_of_method(type(self._hook), method)
            what = f"{f'{place}: ' if place else ''}{self._name}.{method} raised {what}"
            if isinstance(error, _LOSSES):
                raise SessionLost(what) from error
            if not isinstance(error, _ENDS):
                raise ConfigError(f"{what}. Mend the hook, or catch the error in it.") from error
            raise ConfigError(
                f"{what}, which TensorFlow would take for the end of the input. Catch it in the "
                "hook."
            ) from error
        if self._is_stopped(context) and not before:
            self._stopped(method)
        return returned

    def _is_stopped(self, context: Optional[Any]) -> bool:
        asked = context is not None and context.stop_requested
        return asked or (self._coord is not None and self._coord.should_stop())

    def _stopped(self, method: str) -> None:
        if self._mode == ModeKeys.EVAL:
            raise ConfigError(
                f"{self._name}.{method} asked to stop the evaluation before the end of its files. "
                "Metrics of a part of the rows would choose another best model. To evaluate only "
                "the first batches, use --eval_steps."
            )
        _log.warning("%s.%s asked to stop the training", self._name, method)


class EndOfInput(tf.compat.v1.train.SessionRunHook):
    """Raises ConfigError if another op than the input's reader has ended the loop.

    Args:
      model: the name of the model's class, for the message.
      names: the ops that may end it. With an empty set, nothing is checked.
    """

    def __init__(self, model: str, names: frozenset[str]):
        self._model, self._names = model, names

    def end(self, session: Any) -> None:
        # TensorFlow calls `end` while it handles the error that has ended the loop.
        error = sys.exc_info()[1]
        if not self._names or not isinstance(error, _ENDS):
            return
        op = getattr(error, "op", None)
        if op is not None and op.name in self._names:
            return
        place = user_errors.place_of_op(op) if op is not None else None
        what = f"{op.name} (a {op.type})" if op is not None else type(error).__name__
        raise ConfigError(
            f"{f'{place}: ' if place else _start(error)}{self._model}: the operation {what} ended "
            "before the input did. TensorFlow would take this for the end of the input, and leave "
            "out the remaining rows. Repeat a second data set without end, and raise no "
            "StopIteration in a Python function."
        ) from error


def of_training(model: Model, names: frozenset[str]) -> dict[str, Sequence[Hook]]:
    """The hooks of an `EstimatorSpec` of a training, for its arguments of these names."""
    together = [] if model.together is None else [model.together.hook]
    if model.together is not None and names:
        names |= model.together.waiting
    end = EndOfInput(type(model).__name__, names)
    # Also first among the hooks of the chief, so that an error comes before a last checkpoint.
    return {
        "training_hooks": [*together, *checked_hooks(model, ModeKeys.TRAIN), end],
        "training_chief_hooks": [end],
    }


def of_evaluation(model: Model, names: frozenset[str]) -> list[Hook]:
    """The hooks of an `EstimatorSpec` of an evaluation."""
    return [EndOfInput(type(model).__name__, names), *checked_hooks(model, ModeKeys.EVAL)]


def _check_asked(asked: Any, graph: Any) -> None:
    """Raises an error if a run is asked for a name that the graph does not have, or not asked."""
    if asked is not None:
        if not isinstance(asked, tf.compat.v1.train.SessionRunArgs):
            raise TypeError(f"expected SessionRunArgs or None, got {asked!r}")
        for item in tf.nest.flatten([asked.fetches, list(asked.feed_dict or ())]):
            if isinstance(item, str):
                graph.as_graph_element(item)


def _start(error: BaseException) -> str:
    place = user_errors.place_of(error)
    return f"{place}: " if place else ""


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
