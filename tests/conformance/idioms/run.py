"""Runs a cell in plain `tf.estimator` and in the kit, and says how the two compare.

Both get the same rows, the same start values (drawn from the name of each variable), and the same
optimizer. What is compared: every variable of the plain checkpoint, the loss and the metrics of an
evaluation, and the predictions. To save time, three kinds of cells take shorter ways:

- most go through an `Estimator`, after the checks with which a training of the kit begins
  (`outline`), and end with the check of a restart (`check_fit`);
- cells with `whole`, about how trainings end, go through `ek.run`, without an evaluation;
- cells with a metric are only evaluated, from one trained checkpoint.

It never raises an error of a cell: the outcome says in which stage the cell ended.
"""

from __future__ import annotations

import atexit
import dataclasses
import functools
import os
import re
import shutil
import sys
import tempfile
import types
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Optional

import numpy as np
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit import exit_codes
from estimator_kit.checkpoints import model_outline, reading
from estimator_kit.errors import NothingToDo
from estimator_kit.model.names import read_metrics
from input_pipelines.errors import first_line
from input_pipelines.record_files import writing
from tests.conformance.idioms.cells import Cell

STEPS = 3
ROWS = 32
BATCH = 16
WIDTH = 4

EQUAL, REFUSED = "equal", "refused"
DIFFERS, CRASHED, LATE = "differs", "crashed", "refused late"
# A whole run that the model's own code ends. Its status and its message say so.
NAMED = "ends by name"
IMPOSSIBLE = "fails in tf.estimator, too"

DOCUMENT = {
    "features": {"x": {"dtype": "float32", "shape": [WIDTH]}},
    "columns": {"n": {"numeric": "x"}},
    "groups": {"deep": ["n"]},
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}

# For what lives longer than a cell.
_TEMPORARY = tempfile.gettempdir()

# The module that `ek.run` takes the models from.
_MODULE = "tests.conformance.idioms.generated"
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a cell ended.

    Attributes:
      kind: one of the constants above.
      text: what differs, or the stage and the error.
    """

    kind: str
    text: str = ""


@dataclasses.dataclass
class Numbers:
    """What a run has computed; `reported` is the end that `ek.run` reports."""

    variables: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    metrics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    predictions: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    reported: str = ""


class _Failed(Exception):
    """A stage of a run failed with the error that is its cause."""

    def __init__(self, stage: str, error: BaseException):
        super().__init__(stage)
        self.stage, self.error = stage, error


class StartValues(tf.compat.v1.train.SessionRunHook):
    """Gives each trainable variable start values that depend only on its name and shape."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        graph = session.graph
        if session.run(tf.compat.v1.train.get_global_step(graph)):
            return
        keys = tf.compat.v1.GraphKeys
        # Spectral normalization starts from a random vector, which is not trained.
        random = [v for v in graph.get_collection(keys.GLOBAL_VARIABLES)
                  if v.op.name.endswith("/vector_u")]  # fmt: skip
        trained = [v for key in (keys.TRAINABLE_VARIABLES, keys.TRAINABLE_RESOURCE_VARIABLES)
                   for v in graph.get_collection(key)]  # fmt: skip
        for variable in [*trained, *random]:
            rng = np.random.RandomState(zlib.crc32(variable.op.name.encode()) % 2**31)
            values = rng.normal(0.3, 0.4, variable.shape.as_list())
            variable.load(values.astype(variable.dtype.as_numpy_dtype), session)


def rows(count: int = ROWS, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """The values [count, WIDTH] and the labels [count] of all cells."""
    rng = np.random.RandomState(seed)
    x = rng.uniform(-1.0, 1.0, [count, WIDTH]).astype(np.float32)
    return x, (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(np.int64)


def run(cell: Cell, folder: str) -> Outcome:
    """Runs a cell in both, and compares. Everything that is written is in the folder."""
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        return _run(cell, folder)
    finally:
        tempfile.tempdir = before


def _run(cell: Cell, folder: str) -> Outcome:
    try:
        plain = (_plain if cell.metric is None else _plain_metric)(cell, f"{folder}/plain")
    except _Failed as failure:
        return Outcome(IMPOSSIBLE, _described(failure))
    model_dir = f"{folder}/kit"
    run_kit = _whole if cell.whole else (_kit if cell.metric is None else _kit_metric)
    try:
        kit = run_kit(cell, model_dir)
    except _Failed as failure:
        status = exit_codes.exit_code(failure.error)
        named = cell.class_name in str(failure.error)
        if cell.whole and named and status in (exit_codes.BAD_CONFIG, exit_codes.STOPPED):
            return Outcome(NAMED, _described(failure))
        if status != exit_codes.BAD_CONFIG:
            return Outcome(CRASHED, _described(failure))
        early = failure.stage == "check" and not os.path.exists(model_dir)
        return Outcome(REFUSED if early and named else LATE, _described(failure))
    early = _early_end(plain, kit)
    if early:
        return Outcome(DIFFERS, early)
    differences = [
        *_differences("variable", plain.variables, kit.variables),
        *_differences("metric", plain.metrics, kit.metrics),
        *_differences("prediction", plain.predictions, kit.predictions),
    ]
    if differences:
        more = f"; {len(differences)} in all" if len(differences) > 2 else ""
        return Outcome(DIFFERS, "; ".join(differences[:2]) + more)
    return Outcome(EQUAL)


def _early_end(plain: Numbers, kit: Numbers) -> str:
    """What is wrong with the report of a training that a hook has ended."""
    if kit.reported.startswith("done") and not kit.variables:
        return f"the result is {kit.reported!r}, but the model directory has no checkpoint"
    step = int(plain.variables.get("global_step", STEPS))
    if step < STEPS and kit.reported in ("done: max_steps", "done: input_exhausted"):
        return f"the training ends at step {step} of {STEPS}, and the result is {kit.reported!r}"
    return ""


def _described(failure: _Failed) -> str:
    error = failure.error
    text = first_line(error) if hasattr(error, "node_def") else str(error)
    return f"{failure.stage}: {type(error).__name__}: {' '.join(text.split())[:300]}"


def _differences(what: str, wanted: Mapping[str, Any], got: Mapping[str, Any]) -> list[str]:
    result = []
    for name, value in sorted(wanted.items()):
        if name not in got:
            result.append(f"{what} {name} is missing")
        elif np.shape(value) != np.shape(got[name]):
            result.append(f"{what} {name}: shape {np.shape(got[name])} for {np.shape(value)}")
        elif not _close(value, got[name]):
            result.append(f"{what} {name}: {_short(got[name])} for {_short(value)}")
    return result


def _close(wanted: Any, got: Any) -> bool:
    wanted, got = np.asarray(wanted), np.asarray(got)
    if wanted.dtype.kind not in "fiub":
        return bool(np.all(wanted == got))
    return np.allclose(got.astype(np.float64), wanted.astype(np.float64), equal_nan=True,
                       **TOLERANCE)  # fmt: skip


def _short(value: Any) -> str:
    flat = np.ravel(value)
    return np.array2string(flat[:3], precision=6) if flat.size > 1 else str(flat[0])


def _staged(stage: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except BaseException as error:  # A cell may raise anything; the outcome names it.
        if isinstance(error, KeyboardInterrupt):
            raise
        raise _Failed(stage, error) from error


def _input(count: Optional[int]) -> Callable[[], Any]:
    """An input_fn of what the kit's transform makes of the rows, in batches of unknown size."""
    x, y = rows()

    def make() -> Any:
        data = tf.data.Dataset.from_tensor_slices(({"n": x}, {"y": y})).batch(BATCH)
        return data.repeat(count)

    return make


# --- Plain tf.estimator ---------------------------------------------------------------------------


def _called(layer: Any, inputs: Any, mode: str, /, **arguments: Any) -> Any:
    """Calls a Keras layer as the code of a plain model_fn does, and notes its losses and updates.

    Layers that do not take `training` are called without it.
    """
    training = mode == tf.estimator.ModeKeys.TRAIN
    if getattr(layer, "_expects_training_arg", False):
        arguments["training"] = training
    outputs = layer(inputs, **arguments)
    keys = tf.compat.v1.GraphKeys
    for loss in layer.losses:
        tf.compat.v1.add_to_collection(keys.REGULARIZATION_LOSSES, loss)
    for update in layer.updates:
        tf.compat.v1.add_to_collection(keys.UPDATE_OPS, update)
    return outputs


def _plain_model_fn(cell: Cell) -> Callable[..., Any]:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        logits = cell.logits(
            tf.reshape(features["n"], [-1, WIDTH]),
            mode,
            lambda layer, value, /, **more: _called(layer, value, mode, **more),
        )
        predictions = {"y/logits": logits, "y/logistic": tf.sigmoid(logits)}
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions=predictions)
        y = labels["y"]
        added = tf.compat.v1.losses.get_losses()  # Of `logits`. The next lines may add their own.
        if cell.losses is None:
            wanted = tf.cast(y, tf.float32)[:, None]
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits)[:, 0]
        else:
            losses = cell.losses(y, predictions)
        parts = [tf.reduce_mean(losses), *added]
        loss = tf.add_n(parts + tf.compat.v1.losses.get_regularization_losses())
        if mode == tf.estimator.ModeKeys.EVAL:
            metrics = {} if cell.metric is None else {"mine": cell.metric(y, predictions)}
            return tf.estimator.EstimatorSpec(
                mode, loss=loss, eval_metric_ops=metrics, evaluation_hooks=_hooks(cell, mode)
            )
        updates = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies(updates):
            step = tf.compat.v1.train.get_global_step()
            train_op = cell.optimizer().minimize(loss, global_step=step)
        return tf.estimator.EstimatorSpec(
            mode, loss=tf.identity(loss, "estimator_kit/loss"), train_op=train_op,
            training_hooks=_hooks(cell, mode),
        )  # fmt: skip

    return model_fn


def _hooks(cell: Cell, mode: str) -> list[Any]:
    starting = [StartValues()] if mode == tf.estimator.ModeKeys.TRAIN else []
    return starting + (list(cell.hooks(mode)) if cell.hooks is not None else [])


def _run_config(folder: str) -> Any:
    return tf.estimator.RunConfig(
        model_dir=folder, tf_random_seed=1, save_summary_steps=None, log_step_count_steps=None
    )


def _plain(cell: Cell, folder: str) -> Numbers:
    made = tf.estimator.Estimator(_plain_model_fn(cell), config=_run_config(folder))
    return _ran(made, cell, folder)


def _ran(made: Any, cell: Cell, folder: str) -> Numbers:
    _staged("train", lambda: made.train(_input(None), max_steps=STEPS))
    numbers = Numbers(variables=_variables(folder))
    if cell.whole:
        return numbers
    numbers.metrics = _kept(_staged("evaluate", lambda: made.evaluate(_input(1))))
    answers = _staged("predict", lambda: list(made.predict(_input(1))))
    numbers.predictions = {
        name: np.stack([answer[name] for answer in answers]) for name in ("y/logits", "y/logistic")
    }
    return numbers


def _plain_metric(cell: Cell, folder: str) -> Numbers:
    """Only the evaluation: all cells with a metric have the same trained model."""
    made = tf.estimator.Estimator(_plain_model_fn(cell), config=_run_config(folder))
    return Numbers(metrics=_evaluated(made))


def _evaluated(made: Any) -> dict[str, Any]:
    checkpoint = _trained_linear()
    evaluate = functools.partial(made.evaluate, _input(1), checkpoint_path=checkpoint)
    return _kept(_staged("evaluate", evaluate))


@functools.cache
def _trained_linear() -> str:
    """The checkpoint of a plain linear model, which the kit's has the names of, too."""
    folder = tempfile.mkdtemp(dir=_TEMPORARY)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _plain(Cell("trained", "linear"), folder)
    return reading.latest(folder) or ""


def _kept(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The loss, the step, and the cell's metric; each number of an array as the kit names it."""
    numbers = {
        "/".join([name, *map(str, place)]): np.asarray(value)[place]
        for name, value in metrics.items()
        for place in np.ndindex(np.shape(value))
    }
    chosen = ("loss", "global_step", "mine")
    return {n: value for n, value in read_metrics(numbers).items() if n.partition("/")[0] in chosen}


def _variables(folder: str) -> dict[str, np.ndarray]:
    checkpoint = reading.latest(folder)
    if checkpoint is None:  # A CheckpointSaverHook of the cell replaces the one of tf.estimator.
        return {}
    names = [name for name, _ in tf.train.list_variables(checkpoint)]
    return {name: tf.train.load_variable(checkpoint, name) for name in names}


# --- The kit --------------------------------------------------------------------------------------


def model_class(cell: Cell) -> type:
    """The cell as a subclass of `ek.ModelFn`, which overrides only what the cell uses."""

    def logits(self: Any, features: Any, mode: str) -> Any:
        x = self.dense_input(features, "deep")
        return cell.logits(x, mode, lambda layer, value, /, **more: self.keras(
            layer, value, mode, **more))  # fmt: skip

    def example_losses(self: Any, labels: Any, predictions: Any, weights: Any, features: Any):
        return {"y": cell.losses(labels["y"], predictions)}

    def metrics(self: Any, labels: Any, predictions: Any, weights: Any, features: Any):
        return {"mine": cell.metric(labels["y"], predictions)}

    methods: dict[str, Any] = {
        "logits": logits,
        "optimizers": lambda self: [("", cell.optimizer())],
        "hooks": lambda self, mode: _hooks(cell, mode),
    }
    if cell.losses is not None:
        methods["example_losses"] = example_losses
    if cell.metric is not None:
        methods["metrics"] = metrics
    return type(cell.class_name, (ek.ModelFn,), methods)


def _kit(cell: Cell, folder: str) -> Numbers:
    spec = feature_specs.parse(DOCUMENT)
    model = _staged("check", lambda: model_class(cell)(spec))
    outline = _staged("check", lambda: model_outline.outline(model))
    made = tf.estimator.Estimator(model, config=_run_config(folder))
    numbers = _ran(made, cell, folder)
    checkpoint = reading.latest(folder)
    _staged("restart", lambda: reading.check_fit(checkpoint, outline.variables))
    if cell.exported:
        receiver = ek.serving_input_receiver_fn(spec)
        export = functools.partial(made.export_saved_model, f"{folder}/export", receiver)
        path = _staged("export", export).decode()
        numbers.predictions = _staged("export", lambda: _answers(path))
    return numbers


def _kit_metric(cell: Cell, folder: str) -> Numbers:
    model = _staged("check", lambda: model_class(cell)(feature_specs.parse(DOCUMENT)))
    _staged("check", lambda: model_outline.weights_of(model))
    return Numbers(metrics=_evaluated(tf.estimator.Estimator(model, config=_run_config(folder))))


def _whole(cell: Cell, folder: str) -> Numbers:
    """The cell through `ek.run --mode=train`, and a second start."""
    module = sys.modules.setdefault(_MODULE, types.ModuleType(_MODULE))
    setattr(module, cell.class_name, model_class(cell))
    data = os.path.dirname(folder)
    x, y = rows()
    records = [{"x": list(map(float, a)), "y": int(b)} for a, b in zip(x, y)]
    writing.write_examples(f"{data}/train.tfrecord", records)
    spec_file = f"{data}/spec.yaml"
    with open(spec_file, "w", encoding="utf-8") as file:
        file.write(re.sub("'", '"', str(DOCUMENT)))
    config = ek.ExperimentConfig(
        mode="train", spec=spec_file, model=f"{_MODULE}:{cell.class_name}", model_dir=folder,
        train_files=(f"{data}/train.tfrecord",), batch_size=BATCH, max_steps=STEPS, seed=1,
        shuffle=False, report="off",
    )  # fmt: skip
    started: list[bool] = []

    def start() -> Any:
        try:
            return ek.run(config)
        except BaseException:
            started.append(os.path.exists(folder))
            raise

    try:
        result = _staged("run", start)
    except _Failed as failure:
        if not started or not started[0]:
            raise _Failed("check", failure.error) from failure.error
        raise
    try:
        _staged("restart", lambda: ek.run(config))
    except _Failed as failure:
        if not isinstance(failure.error, NothingToDo):
            raise
    return Numbers(variables=_variables(folder), reported=f"{result.status}: {result.stop_reason}")


def _answers(export: str) -> dict[str, np.ndarray]:
    """The predictions of an export, in a session."""
    x, _ = rows()
    examples = [writing.example({"x": list(map(float, a))}).SerializeToString() for a in x]
    limits = tf.compat.v1.ConfigProto(operation_timeout_in_ms=60_000)
    with tf.Graph().as_default(), tf.compat.v1.Session(config=limits) as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], export)
        signature = meta.signature_def["predict_examples"]
        outputs = {name: info.name for name, info in signature.outputs.items()
                   if name in ("y/logits", "y/logistic")}  # fmt: skip
        (tensor,) = (info.name for info in signature.inputs.values())
        return session.run(outputs, {tensor: np.array(examples, object)})
