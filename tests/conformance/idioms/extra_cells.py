"""The cells of graph collections, lookup tables and hooks, whose entries need separate code."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tests.conformance.idioms import surface
from tests.conformance.idioms.cell import Cell, hidden, to_logits

v1 = tf.compat.v1
KEYS = v1.GraphKeys
TRAIN = tf.estimator.ModeKeys.TRAIN

# Collections that no code of a model_fn fills. TensorFlow does.
NOT_OF_USERS = {
    "EVAL_STEP": "tf.estimator makes its variable, one for each evaluation",
    "INIT_OP": "an op that is made in a model_fn misses the variables that come later",
    "LOCAL_RESOURCES": "only TensorFlow's own kernels register resources",
    "RESOURCES": "only TensorFlow's own kernels register resources",
    "TRAIN_OP": "MonitoredSession does not read it",
    "VARIABLES": "an old name of GLOBAL_VARIABLES",
}

# Hooks that need an Estimator, which a model_fn does not have.
NEED_ESTIMATOR = {
    "experimental.InMemoryEvaluatorHook", "experimental.make_early_stopping_hook",
    "experimental.make_stop_at_checkpoint_step_hook", "experimental.stop_if_higher_hook",
    "experimental.stop_if_lower_hook", "experimental.stop_if_no_decrease_hook",
    "experimental.stop_if_no_increase_hook",
}  # fmt: skip


# --- Collections ----------------------------------------------------------------------------------


def _unlisted(name: str, value: float) -> tf.Variable:
    """A variable in no collection: only the op that the cell adds initializes it."""
    return v1.get_variable(name, [], initializer=v1.constant_initializer(value), trainable=False,
                           collections=["own"])  # fmt: skip


def _extra(scale: Any, x: tf.Tensor) -> tf.Tensor:
    return to_logits(hidden(x) * scale)


def _saveable(variable: tf.Variable) -> Any:
    from tensorflow.python.training.saving import saveable_object

    class Saveable(saveable_object.SaveableObject):
        """Saves a variable that is in no collection."""

        def __init__(self) -> None:
            name = variable.op.name  # A MetaGraph looks for an operation of this name.
            part = saveable_object.SaveSpec(variable.read_value(), "", name)
            super().__init__(variable, [part], name)

        def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
            return variable.assign(restored_tensors[0])

    return Saveable()


def _with_savers(x: tf.Tensor, mode: str) -> tf.Tensor:
    logits = _extra(1.0, x)
    renamed = {f"renamed/{v.op.name}": v for v in v1.global_variables()}
    v1.add_to_collection(KEYS.SAVERS, v1.train.Saver(renamed, save_relative_paths=True))
    return logits


def _of_collection(name: str) -> Callable[[tf.Tensor, str], tf.Tensor]:
    """The logits of a model that uses a collection as old code does."""
    key = getattr(KEYS, name)

    def add(value: Any) -> None:
        v1.add_to_collection(key, value)

    def local_init(x: tf.Tensor, mode: str) -> tf.Tensor:
        own = _unlisted("own", 2.0)
        others = v1.train.Scaffold.default_local_init_op()
        add(tf.group(others, own.initializer) if name == "LOCAL_INIT_OP" else own.initializer)
        return _extra(own, x)

    def loss(x: tf.Tensor, mode: str) -> tf.Tensor:
        h = hidden(x)
        if mode != tf.estimator.ModeKeys.PREDICT:
            add(0.5 * tf.reduce_mean(tf.square(h)))
        return to_logits(h)

    def update(x: tf.Tensor, mode: str) -> tf.Tensor:
        mean = v1.get_variable("mean", [4], initializer=v1.zeros_initializer(), trainable=False)
        if mode == TRAIN:
            add(mean.assign(0.5 * mean + 0.5 * tf.reduce_mean(x, 0)))
        return to_logits(hidden(x) - mean)

    def local(x: tf.Tensor, mode: str) -> tf.Tensor:
        own = v1.get_variable("own", [], initializer=v1.constant_initializer(2.0),
                              trainable=False, collections=[key])  # fmt: skip
        if name == "METRIC_VARIABLES":  # tf.compat.v1.metrics uses both.
            v1.add_to_collection(KEYS.LOCAL_VARIABLES, own)
        return _extra(own, x)

    def weights(x: tf.Tensor, mode: str) -> tf.Tensor:
        only = name == "TRAINABLE_RESOURCE_VARIABLES"  # In both, it would be trained twice.
        own = v1.get_variable("own", [4], initializer=v1.ones_initializer(),
                              collections=[KEYS.GLOBAL_VARIABLES, key] if only else None,
                              trainable=not only)  # fmt: skip
        if not any(each is own for each in v1.get_collection(key)):
            add(own)
        return _extra(own, x)

    def frozen(x: tf.Tensor, mode: str) -> tf.Tensor:
        own = v1.get_variable("own", [4], initializer=v1.ones_initializer())
        collection = v1.get_collection_ref(KEYS.TRAINABLE_VARIABLES)
        collection[:] = [each for each in collection if each is not own]
        return _extra(own, x)

    def summary(x: tf.Tensor, mode: str) -> tf.Tensor:
        h = hidden(x)
        merged = v1.summary.scalar("mean_of_hidden", tf.reduce_mean(h))
        if name == "SUMMARY_OP":
            add(merged)
        return to_logits(h)

    def queue(x: tf.Tensor, mode: str) -> tf.Tensor:
        made = tf.queue.FIFOQueue(8, [tf.float32], [[]])
        runner = v1.train.QueueRunner(made, [made.enqueue(2.0)])
        v1.train.add_queue_runner(runner)
        return _extra(made.dequeue(), x)

    def cond(x: tf.Tensor, mode: str) -> tf.Tensor:
        h = hidden(x)
        return to_logits(v1.cond(tf.reduce_sum(x) > -1e9, lambda: h * 2.0, lambda: h))

    def loop(x: tf.Tensor, mode: str) -> tf.Tensor:
        h = hidden(x)
        _, found = v1.while_loop(
            lambda i, _: i < 3, lambda i, value: (i + 1, tf.tanh(value)), [tf.constant(0), h]
        )
        return to_logits(found)

    def step(x: tf.Tensor, mode: str) -> tf.Tensor:
        return _extra(1.0 / (1.0 + tf.cast(v1.train.get_or_create_global_step(), tf.float32)), x)

    def ready(x: tf.Tensor, mode: str) -> tf.Tensor:
        add(tf.constant([], tf.string))
        return _extra(1.0, x)

    def saveable(x: tf.Tensor, mode: str) -> tf.Tensor:
        own = _unlisted("own", 2.0)
        v1.add_to_collection(KEYS.TABLE_INITIALIZERS, own.initializer)
        add(_saveable(own))
        return _extra(own, x)

    def asset(x: tf.Tensor, mode: str) -> tf.Tensor:
        add(tf.constant(_vocabulary(), name="own_asset"))
        return _extra(1.0, x)

    special = {
        "ASSET_FILEPATHS": asset, "COND_CONTEXT": cond, "GLOBAL_STEP": step,
        "LOCAL_INIT_OP": local_init, "LOCAL_VARIABLES": local, "LOSSES": loss,
        "METRIC_VARIABLES": local, "QUEUE_RUNNERS": queue, "READY_FOR_LOCAL_INIT_OP": ready,
        "READY_OP": ready, "REGULARIZATION_LOSSES": loss, "SAVEABLE_OBJECTS": saveable,
        "SAVERS": _with_savers, "SUMMARIES": summary, "SUMMARY_OP": summary,
        "TABLE_INITIALIZERS": local_init, "TRAINABLE_VARIABLES": frozen, "UPDATE_OPS": update,
        "WHILE_CONTEXT": loop,
    }  # fmt: skip
    return special.get(name, weights)


def collection_cells() -> list[Cell]:
    """One cell for each key of GraphKeys."""

    def made(name: str) -> Cell:
        build = _of_collection(name)
        return Cell(
            "collections", name, logits=lambda x, mode, keras: build(x, mode),
            exported=name != "QUEUE_RUNNERS",  # Nobody starts them in a server, so it would hang.
        )  # fmt: skip

    return [made(name) for name in surface.collections() if name not in NOT_OF_USERS]


# --- Lookup tables --------------------------------------------------------------------------------


def _vocabulary() -> str:
    """A file of the words 0 to 4."""
    path = f"{tempfile.gettempdir()}/idioms_vocabulary.txt"
    with open(path, "w", encoding="utf-8") as file:
        file.write("0\n1\n2\n3\n4\n")
    return path


def table_cells() -> list[Cell]:
    """One cell for each table, with each kind of keys and of initializers."""
    lookup = tf.lookup

    def initializer(kind: str, keys: Any) -> Any:
        if kind == "file":
            return lookup.TextFileInitializer(
                _vocabulary(), keys, lookup.TextFileIndex.WHOLE_LINE, tf.int64,
                lookup.TextFileIndex.LINE_NUMBER,
            )  # fmt: skip
        words = ["0", "1", "2"] if keys == tf.string else tf.constant([0, 1, 2], tf.int64)
        return lookup.KeyValueTensorInitializer(words, tf.constant([2, 0, 1], tf.int64))

    def table(name: str, kind: str, keys: Any) -> Any:
        if name == "StaticHashTable":
            return lookup.StaticHashTable(initializer(kind, keys), 7)
        if name == "StaticVocabularyTable":
            return lookup.StaticVocabularyTable(initializer(kind, keys), 2)
        if name == "experimental.MutableHashTable":
            return lookup.experimental.MutableHashTable(keys, tf.int64, 7)
        if name == "experimental.DenseHashTable":
            text = keys == tf.string
            return lookup.experimental.DenseHashTable(
                keys, tf.int64, 7, "empty" if text else -1, "deleted" if text else -2
            )
        raise NotImplementedError(f"write the cell of tf.lookup.{name}")

    def made(name: str, kind: str, keys: Any) -> Cell:
        def logits(x: tf.Tensor, mode: str, keras: Any) -> tf.Tensor:
            ids = tf.cast(tf.floor(2.5 * (x + 1)), tf.int64)
            words = tf.strings.as_string(ids) if keys == tf.string else ids
            made = table(name, kind, keys)
            before = []
            if mode == TRAIN and name.startswith("experimental."):
                before.append(made.insert(tf.reshape(words, [-1]), tf.reshape(ids + 1, [-1])))
            with tf.control_dependencies(before):
                found = tf.reshape(made.lookup(tf.reshape(words, [-1])), [-1, 4])
            return to_logits([hidden(x), tf.cast(found, tf.float32)])

        return Cell("tables", f"{name} of {keys.name}{kind and f' from a {kind}'}", logits=logits,
                    exported=True)  # fmt: skip

    cells = []
    for name in surface.lookup_tables():
        for keys in (tf.string, tf.int64):
            for kind in ("", "file") if name.startswith("Static") else ("",):
                cells.append(made(name, kind, keys))
    return cells


# --- Hooks ----------------------------------------------------------------------------------------


class _Stops(v1.train.SessionRunHook):
    """Ends a training after two steps, by `request_stop` or by an exception."""

    def __init__(self, error: Any = None):
        self._error = error

    def before_run(self, run_context: Any) -> Any:
        step = v1.train.get_global_step(run_context.session.graph)
        return v1.train.SessionRunArgs(step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        # The value of a step that may be before or after the update.
        if run_context.session.run(v1.train.get_global_step(run_context.session.graph)) >= 2:
            if self._error is not None:
                raise self._error
            run_context.request_stop()


class _Fetches(v1.train.SessionRunHook):
    """Fetches tensors before each step, and counts the steps in `end`."""

    def begin(self) -> None:
        self._loss = v1.get_default_graph().get_tensor_by_name("estimator_kit/loss:0")

    def before_run(self, run_context: Any) -> Any:
        return v1.train.SessionRunArgs({"loss": self._loss})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        assert run_values.results["loss"] > 0

    def end(self, session: Any) -> None:
        assert session.run(v1.train.get_global_step(session.graph)) > 0


def _loss_tensor() -> Any:
    return v1.get_default_graph().get_tensor_by_name("estimator_kit/loss:0")


def _hook(name: str) -> Any:
    """A hook of a training."""
    folder = tempfile.mkdtemp(prefix="idioms_hook_")
    scale = v1.get_default_graph().get_tensor_by_name("scale:0")
    special: dict[str, Callable[[Any], Any]] = {
        "train.CheckpointSaverHook": lambda kind: kind(folder, save_steps=1),
        "train.FeedFnHook": lambda kind: kind(lambda: {scale: 2.0}),
        "train.FinalOpsHook": lambda kind: kind(v1.train.get_global_step().read_value()),
        "train.GlobalStepWaiterHook": lambda kind: kind(0),
        "train.LoggingTensorHook": lambda kind: kind({"loss": "estimator_kit/loss:0"}, 1),
        "train.NanTensorHook": lambda kind: kind(_loss_tensor()),
        "train.ProfilerHook": lambda kind: kind(save_steps=2, output_dir=folder),
        "train.StepCounterHook": lambda kind: kind(1, output_dir=folder),
        "train.StopAtStepHook": lambda kind: kind(last_step=2),
        "train.SummarySaverHook": lambda kind: kind(
            1, output_dir=folder, summary_op=v1.summary.scalar("own", _loss_tensor())
        ),
        "own: fetches": lambda kind: _Fetches(),
        "own: request_stop": lambda kind: _Stops(),
        "own: StopIteration": lambda kind: _Stops(StopIteration()),
        "own: OutOfRangeError": lambda kind: _Stops(
            tf.errors.OutOfRangeError(None, None, "a reader of the hook has ended")
        ),
    }  # fmt: skip
    if name not in special:
        raise NotImplementedError(f"write the cell of the hook {name}")
    kind = getattr(v1.train, name[len("train.") :], None) if name.startswith("train.") else None
    return special[name](kind)


def hook_cells() -> list[Cell]:
    """One cell for each hook that a model_fn can make, and for what own hooks do."""

    def made(name: str) -> Cell:
        def logits(x: tf.Tensor, mode: str, keras: Any) -> tf.Tensor:
            return _extra(v1.placeholder_with_default(1.0, [], name="scale"), x)

        def hooks(mode: str) -> list[Any]:
            return [_hook(name)] if mode == TRAIN else []

        return Cell("hooks", name, logits=logits, hooks=hooks, whole=True)

    names = [name for name in surface.hooks() if name not in NEED_ESTIMATOR]
    own = ["own: fetches", "own: request_stop", "own: StopIteration", "own: OutOfRangeError"]
    return [made(name) for name in [*names, *own]]
