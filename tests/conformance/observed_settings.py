"""What a config makes of small files, by aspect and mode, without a training.

`OBSERVED` has a class for each mode that is compared. What it makes is kept with the values of the
settings that were read for it. Another config with the same values makes the same, so a setting
that was not read has changed nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable, Optional
from unittest import mock

import numpy as np
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.checkpoints import model_outline
from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.commands import convert, predict
from estimator_kit.config.modes import MODES, areas_of
from estimator_kit.distributed import all_reduce, tasks
from estimator_kit.exporters import saved_model
from estimator_kit.exporters.saved_model import RunExports
from estimator_kit.exporters.signatures import make_signatures
from estimator_kit.model.computing import Computing
from estimator_kit.retraining import vocabularies, window
from estimator_kit.retraining.facts import Facts
from estimator_kit.training import bad_data, input_cache, preparation
from estimator_kit.training.after_evaluation import AfterEvaluation
from estimator_kit.training.eval_input import EvalInput, eval_paths
from estimator_kit.training.hooks.progress import ProgressHook
from estimator_kit.training.hooks.stop import StopRequest
from estimator_kit.training.plan import find_warm_start, make_plan
from estimator_kit.training.run import Training
from estimator_kit.training.run_config import make_run_config
from estimator_kit.training.source import TrainingInput
from estimator_kit.training.team import Team
from feature_specs.parser import parser
from input_pipelines.errors import DataError
from input_pipelines.input_fns import PADDING
from input_pipelines.transform.serving_inputs import serving_inputs
from tests.conformance.observed import (
    Common,
    Observed,
    example,
    fill,
    initialize,
    quick_session,
    same,
)

# Rows of a fixed batch.
ROWS = [
    {"number": i, "price": i % 5 / 2, "city": "oslo" if i % 3 else "rome", "y": i % 2}
    for i in range(6)
]
# (loss, auc) of evaluations.
SCORES = ((3.0, 0.6), (1.0, 0.9), (2.0, 0.5), (2.1, 0.7), (2.2, 0.6), (2.3, 0.6), (2.4, 0.6))


# For each part: what was made, and what was read for it, in order: settings and parts with values.
Memo = dict[Any, list[tuple[dict[str, Any], Any]]]


def part(make: Callable[[Any], Any]) -> Any:
    """A property that is made once for equal values of what was read for it."""

    def get(self: OfConfig) -> Any:
        _, made = self.made(make, self.memo)
        self.reading[-1][make.__name__] = made
        return made

    return property(get)


def own_part(make: Callable[[Any], Any]) -> Any:
    """A part that holds the config and reads it later, so that no other config may have it."""

    def get(self: OfConfig) -> Any:
        read, made = self.made(make, {})
        self.reading[-1].update(read)
        return made

    return property(get)


# Attributes of a config with which all settings are read.
_ALL = {"__dict__", "model_copy", "model_dump", "model_fields_set"}


class OfConfig:
    """What a config makes.

    Args:
      values: of the config.
      memo: what others have made.
    """

    # The aspects that are compared, in the order of a record's way.
    aspects: tuple[str, ...] = ()

    def __init__(self, values: Mapping[str, Any], memo: Memo):
        config, self.memo, self.own = ek.ExperimentConfig(**values), memo, {}
        given, reading = dict(config), [{}]

        def noted(kind: type[Any], names: Iterable[str]) -> Any:
            class Noted(kind):
                def __getattribute__(self, name: str) -> Any:
                    if name in given:
                        reading[-1].setdefault(f"--{name}", given[name])
                    elif name in _ALL and len(kind.model_fields) == len(given):
                        reading[-1].update({f"--{name}": value for name, value in given.items()})
                    return super().__getattribute__(name)

            values = {name: given[name] for name in names}
            return Noted.model_construct(config.model_fields_set & values.keys(), **values)

        self.config = noted(ek.ExperimentConfig, given)
        kind = MODES[config.mode]
        areas = {name: noted(area, area.model_fields) for name, area in areas_of(kind).items()}
        self.command = kind.model_construct(settings=self.config, **areas)
        self.given, self.reading = given, reading

    def made(self, make: Callable[[Any], Any], memo: Memo) -> tuple[dict[str, Any], Any]:
        """(what was read, what was made), by this config or by one that reads the same."""
        if make in self.own:
            return self.own[make]
        kept = memo.setdefault((type(self), make), [])
        for read, made in kept:
            if all(self._reads(name, value) for name, value in read.items()):
                self.own[make] = read, made
                return read, made
        self.reading.append({})
        try:
            made = make(self)
        finally:
            read = self.reading.pop()
            if sys.exc_info()[0] is not None:
                self.reading[-1].update(read)
        self.own[make] = read, made
        kept.append(self.own[make])
        return read, made

    def _reads(self, name: str, value: Any) -> bool:
        if name.startswith("--"):
            return bool(self.given[name[2:]] == value)
        self.reading.append({})
        try:
            now = getattr(self, name)
        except DataError:
            return False
        finally:
            self.reading.pop()
        return now is value or same(now, value)

    @part
    def spec(self):
        return parser.load(self.config.spec)

    @part
    def accepted(self) -> bool:
        """Whether there is anything to observe except the verdict."""
        return True


class _Fixed(Observed):
    """The model on fixed rows."""

    def __init__(self, spec, model, seed=1):
        self.spec, self.model, self.seed = spec, model, seed
        self.records = [example(row) for row in ROWS]


class OfEvaluation(OfConfig):
    """Of `--mode=evaluate`, without a checkpoint."""

    aspects = ("scores",)

    @part
    def model(self):
        """The model as it answers; training has another one."""
        return preparation.make_model(self.config, self.spec)

    @part
    def files(self) -> dict[str, list[str]]:
        return {"--eval_files": eval_paths(self.config, self.config, self.spec)}

    @part
    def screened(self):
        return bad_data.screen(self.config, self.config, self.spec, self.files)

    @own_part
    def evaluated(self):
        return EvalInput.of(self.command, self.spec, self.screened)

    @part
    def scores(self) -> Any:
        return self.measured

    @part
    def measured(self) -> dict[str, Any]:
        """The rows that are evaluated, and the metrics of their answers."""
        numbers, model, evaluated = [], self.model, self.evaluated
        with (
            input_cache.opened(self.config, self.spec) as cache,
            tf.Graph().as_default(),
            quick_session() as session,
        ):
            tf.compat.v1.train.get_or_create_global_step()
            batches = evaluated.input_fn(cache)()
            iterator = tf.compat.v1.data.make_initializable_iterator(batches)
            batch = iterator.get_next()
            metrics = model(*batch, tf.estimator.ModeKeys.EVAL).eval_metric_ops
            initialize(session, iterator.initializer)
            fill(tf.compat.v1.global_variables(), session)
            updates = {name: update for name, (_, update) in metrics.items()}
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while True:
                    rows, _ = session.run((batch[0]["number/raw"], updates))
                    numbers += rows.ravel().tolist()
            found = session.run({name: value for name, (value, _) in metrics.items()})
        return {"rows": numbers, "metrics": Common(found)}


class OfTraining(OfEvaluation):
    """Of `--mode=train_and_evaluate`, up to the first step."""

    aspects = ("rows", "values", "weights", "outputs", "training", "scores", "limits")

    @part
    def view(self):
        return preparation.check_surroundings(self.command)

    @own_part
    def trainer(self):
        return tasks.trainer_of(self.command, self.spec, None)

    @part
    def team(self):
        config, view = self.config, self.view
        if view is None:
            return self.trainer.team
        devices = len(all_reduce.devices(config)) if config.strategy in tasks.ALL_REDUCE else 1
        return Team.of(config, view, devices)

    @own_part
    def source(self) -> TrainingInput:
        return TrainingInput.of(self.command, self.spec, self.team)

    @part
    def files(self) -> dict[str, list[str]]:
        evaluated = eval_paths(self.config, self.config, self.spec)
        return {self.source.flag: self.source.files, "--eval_files": evaluated}

    @part
    def accepted(self) -> bool:
        try:
            return bool(self.screened)
        except DataError:
            return False

    @part
    def outline(self):
        return model_outline.outline(self.model)

    @part
    def trained(self):
        """The model as it trains, with its warm start."""
        model = preparation.make_model(self.config, self.spec)
        model.computing = Computing.of(self.config)
        outline = self.outline if self.config.warm_start_from is not None else None
        model.warm_start = find_warm_start(
            self.config, self.config, self.spec, model.params, outline
        )
        return model

    @part
    def first_step(self) -> int:
        warm = self.trained.warm_start
        return warm.step if warm is not None else 0

    @part
    def plan(self):
        source = self.source.without_bad(self.screened)
        return make_plan(self.config, source, None, self.first_step)

    @part
    def rows(self) -> list[int]:
        """The numbers of the rows that two epochs of this process read, in their order."""
        source, plan = self.source.without_bad(self.screened), self.plan
        count = sum(part.in_epochs(2) for part in plan.counts)
        known = {"negatives": source.negatives, "mixed": bool(self.config.train_mix)}
        input_cache.check(self.config, self.spec, **known)
        with input_cache.opened(self.config, self.spec, **known) as cache:
            batches = source.input_from(plan.position, counts=plan.counts, cache=cache)()
            real = (f for f, labels in batches if not np.any(labels.get(PADDING, False)))
            numbers = (n for features in real for n in features["number/raw"].numpy().ravel())
            return [int(n) for n in itertools.islice(numbers, count)]

    @part
    def values(self) -> Any:
        return _Fixed(self.spec, None).values

    @part
    def _fixed(self) -> _Fixed:
        return _Fixed(self.spec, self.model)

    @part
    def weights(self) -> Any:
        return self._fixed.weights

    @part
    def outputs(self) -> Any:
        """The answers, and the signatures of an export."""
        spec, model = self.spec, self.model
        with tf.Graph().as_default():
            tf.compat.v1.train.get_or_create_global_step()
            inputs = serving_inputs(spec)
            made = model(inputs.features, None, tf.estimator.ModeKeys.PREDICT)
            name = self.config.default_signature
            signatures = make_signatures(made.export_outputs, inputs, name)
        return self._fixed.outputs, {n: str(one) for n, one in signatures.items()}

    @part
    def _judged(self) -> dict[str, Any]:
        """The fixed evaluations that the exporter `best` takes, and after which one it stops."""
        config, request = self.config, StopRequest()
        files = self.screened.files["--eval_files"]
        meaning = ScoresMeaning.of(self.command, self.spec, self.model, files, {})
        after = AfterEvaluation(self.command, self.spec, request, meaning=meaning)
        best, stopped = [], None

        def write(trained, exporter, checkpoint):
            path = pathlib.Path(config.model_dir, "export", exporter, str(step))
            path.mkdir(parents=True)
            if exporter == "best":
                best.append(step)
            return str(path)

        after._write = write
        for step, (loss, auc) in enumerate(SCORES, 1):
            after.export(
                None, "", "", {"loss": loss, "auc/y": auc, "rows": 6, "global_step": step}, False
            )
            if stopped is None and request.reason is not None:
                stopped = step
        shutil.rmtree(config.model_dir)
        return {"best": best, "stopped": stopped}

    @part
    def scores(self) -> Any:
        return self.measured, self._judged["best"]

    @own_part
    def _steps(self) -> Any:
        """What the trainer is told."""
        training = Training(self.command, self.spec, self.trained, self.trainer)
        training._source, training._plan = self.source, self.plan
        training._eval_input, training._start_step, training._profile = self.evaluated, None, None
        training._progress = ProgressHook(training._plan.max_steps, every_secs=1.0, shared=False)
        training._after_evaluation = AfterEvaluation(
            self.command, self.spec, self.trainer.request, self.evaluated,
            meaning=ScoresMeaning("", "", {}),
        )  # fmt: skip
        training._cache = training._estimator = None
        return training._steps()

    @part
    def training(self) -> Any:
        """The steps at which it starts, saves, evaluates and ends; and the first step."""
        plan, saved = self.plan, make_run_config(self.command, self.view)
        assert saved.tf_random_seed == self.config.seed
        return {
            "plan": (plan.start_step, plan.max_steps, plan.stop_reason),
            "saves": (saved.save_checkpoints_steps, saved.save_checkpoints_secs),
            "evaluates": (self._steps.max_steps, self._steps.eval_spec.throttle_secs),
            "stops": self._judged["stopped"],
            "step": self._step,
        }

    @part
    def _step(self) -> Any:
        self.trained.last_step = 100
        return _Fixed(self.spec, self.trained, self.config.seed).training

    @part
    def limits(self) -> Any:
        """Whether the files are accepted, and how many rows check an export."""
        if not self.accepted:
            return "refused"
        screened = self.screened
        paths = screened.files["--eval_files"]
        exports = RunExports(self.command, self.spec, paths, screened.damaged)
        with mock.patch.object(saved_model, "unusual_rows", lambda *_, count, **__: count):
            return exports._sample()


class OfCycle(OfConfig):
    """Of `--mode=retrain`: the periods of a cycle and its words. It trains like a training."""

    aspects = ("rows", "values", "scores", "limits")

    @part
    def _window(self) -> Optional[window.Window]:
        facts = Facts(os.path.join(self.config.model_dir, "facts"), self.spec)
        try:
            return window.choose(
                self.config,
                self.config,
                self.config,
                self.spec,
                facts,
                as_of=self.config.as_of,
            )
        except DataError:
            return None

    @part
    def accepted(self) -> bool:
        return self._window is not None

    @part
    def rows(self) -> Any:
        return [(period.name, period.digest) for period in self._window.train]

    @part
    def scores(self) -> Any:
        return [(period.name, period.digest) for period in self._window.evaluate]

    @part
    def values(self) -> Any:
        """The words of the vocabulary."""
        folder = pathlib.Path(self.config.model_dir, "spec")
        files = [file.path for file in self._window.train_files]
        vocabularies.make(self.spec, str(folder), files=files, min_count=self.config.min_count)
        return (folder / "words.txt").read_text()

    @part
    def limits(self) -> Any:
        return self.accepted


class OfConversion(OfConfig):
    """Of `--mode=convert`."""

    aspects = ("records",)

    @part
    def records(self) -> dict[str, bytes]:
        """The bytes of each file."""
        folder = pathlib.Path(self.config.convert_dir)
        shutil.rmtree(folder, ignore_errors=True)
        convert.run_conversion(self.command)
        return {
            str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.tfrecord*")
        }


class OfPrediction(OfConfig):
    """Of `--mode=predict`, with a checkpoint."""

    aspects = ("outputs",)

    @part
    def outputs(self) -> Any:
        """The lines that it writes."""
        predict._with_checkpoint(self.command, None)
        lines = pathlib.Path(self.config.predict_output).read_text().splitlines()
        return Common(enumerate(lines))


OBSERVED: Mapping[str, type[OfConfig]] = {
    "train_and_evaluate": OfTraining, "evaluate": OfEvaluation, "retrain": OfCycle,
    "convert": OfConversion, "predict": OfPrediction,
}  # fmt: skip


def own_rows(mode: str) -> Iterator[dict[str, Any]]:
    """Rows for `--input_fn`."""
    del mode
    yield from ROWS


def other_rows(mode: str) -> Iterator[dict[str, Any]]:
    """Other rows for `--input_fn`."""
    del mode
    yield from ROWS[:4]
