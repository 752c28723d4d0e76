"""What earlier runs have written, and how a later start reads it: for `test_artifacts`.

A maker writes one artifact by a small real run. Its `read` calls the code with which a later start
decides, on the real files, and says what followed: None if the start goes on, or words of the
column `otherwise` of `feature_specs.meaning`. A refusal is the error itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import glob
import json
import os
import pathlib
import random
from collections.abc import Callable, Iterator
from typing import Any, Optional
from unittest import mock

import numpy as np

import estimator_kit as ek
import feature_specs
from estimator_kit.checkpoints import model_outline, reading, run_record
from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.checkpoints.warm_start import warm_start
from estimator_kit.commands import convert
from estimator_kit.config.areas import AllSettings
from estimator_kit.config.areas.base import changes_of
from estimator_kit.config.cluster import ClusterView
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of, settings_of
from estimator_kit.distributed.lost_tasks import Watch
from estimator_kit.distributed.waiting import DONE, Marks, goal_of
from estimator_kit.errors import CheckpointError, NothingToDo, Refused
from estimator_kit.exporters import kinds
from estimator_kit.model import model_params
from estimator_kit.models import MODELS
from estimator_kit.observing.histories import EvaluationHistory
from estimator_kit.retraining import cycle, cycle_files
from estimator_kit.retraining.data_checks import Checked
from estimator_kit.retraining.facts import Facts
from estimator_kit.retraining.gate_stage import Judged
from estimator_kit.retraining.training_stage import Trained
from estimator_kit.scoring import export as exports
from estimator_kit.scoring import scoring
from estimator_kit.scoring.eval_rows import EvalRows
from estimator_kit.serving.loaded_model import LoadedModel
from estimator_kit.training import plan
from estimator_kit.training.plan import Plan, check_start, trained_before
from estimator_kit.training.preparation import make_model, trained_estimator
from estimator_kit.training.source import TrainingInput
from estimator_kit.tuning import search_file
from estimator_kit.tuning.definition import definition
from estimator_kit.tuning.study import SearchStudy
from feature_specs.spec import FeatureSpec
from input_pipelines.integrity import data_scan
from input_pipelines.record_files import writing
from input_pipelines.row_cache.cache import RowCache

DOCUMENT: dict[str, Any] = {
    "features": {
        "price": {"dtype": "float32", "default": 0.0},
        "city": {"dtype": "string"},
        "tags": {"dtype": "string", "shape": "variable"},
        "user": {"dtype": "int64", "default": 0},
        "unread": {"dtype": "float32", "default": 0.0},
    },
    "columns": {
        "price": {"numeric": "price"},
        "city": {"vocabulary": "city", "list": ["rome", "oslo"], "oov_buckets": 1},
        "city_hot": {"indicator": "city"},
        "tag": {"hash_bucket": "tags", "size": 5},
        "tag_emb": {"embedding": "tag", "dimension": 2},
    },
    "groups": {"deep": ["price", "city_hot", "tag_emb"]},
    "raw": ["user"],
    "ignored": ["unread"],
    "labels": {
        "click": {"dtype": "int64"},
        "level": {"dtype": "string", "vocabulary": ["low", "mid", "high"]},
    },
    "objectives": {
        "click": {"head": "binary", "metrics": ["gauc"], "group_by": "user"},
        "level": {"head": "multi_class", "num_classes": 3},
    },
    "filter": [{"feature": "price", "min": -1.0}],
    # No candidate passes, so a cycle does not go live.
    "retraining": {"gate": {"conditions": [{"metric": "log_loss/click", "max": 0}]}},
    "tables": {"csv_missing": ["NA"]},
}
DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


@dataclasses.dataclass(frozen=True, eq=False)
class Change:
    """Another value of a setting, of a field of the spec, or of a parameter of the model.

    Attributes:
      of: `setting`, `field` or `parameter`.
      name: its name; of a field its place, such as `columns.tag_emb.combiner`.
      value: the other value, as YAML has it.
    """

    of: str
    name: str
    value: Any

    def __str__(self) -> str:
        return f"--{self.name}" if self.of == "setting" else self.name

    @property
    def section(self) -> str:
        """The section of a field; "" of others."""
        return self.name.partition(".")[0] if self.of == "field" else ""

    @property
    def aspects(self) -> frozenset[str]:
        """What it changes by its declaration."""
        if self.of == "setting":
            return changes_of(AllSettings, self.name).aspects
        if self.of == "parameter":
            return model_params.changes_of(MODELS["dnn"].Params, self.name)
        *place, key = self.name.split(".")
        entry = getattr(feature_specs.parse(DOCUMENT), place[0])
        for part in place[1:]:
            entry = entry[int(part) if isinstance(entry, (list, tuple)) else part]
        fields = {info.alias or name: name for name, info in type(entry).model_fields.items()}
        return type(entry).changes_of(fields[key]).aspects

    def applied(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document of a spec with the change, if it is one of a field."""
        if self.of == "field":
            *place, key = self.name.split(".")
            entry = document = json.loads(json.dumps(document))
            for part in place:
                in_list = isinstance(entry, list)
                entry = entry[int(part)] if in_list else entry.setdefault(part, {})
            entry[key] = self.value
        return document


class Start:
    """What a start is given: the same as when all artifacts were made, but for one change.

    Args:
      data: the folder of the data, which `write_data` has filled.
      change: the change, or None.
      document: of the spec.
    """

    def __init__(
        self,
        data: pathlib.Path,
        change: Optional[Change] = None,
        document: dict[str, Any] = DOCUMENT,
    ):
        self.data, self.change = data, change
        self._document = document if change is None else change.applied(document)

    @functools.cached_property
    def spec_path(self) -> str:
        path = self.data / f"spec-{id(self)}.json"
        path.write_text(json.dumps(self._document))
        return str(path)

    @property
    def spec(self) -> FeatureSpec:
        return feature_specs.load(self.spec_path)

    @property
    def outline(self) -> model_outline.ModelOutline:
        of_model = self.change is not None and self.change.of != "setting"
        return outline_of(self.change if of_model else None, self.data)

    def files(self, *days: str) -> tuple[str, ...]:
        return tuple(f"{self.data}/dt={day}/part-0.tfrecord" for day in days)

    def config(self, mode: str, kind: Any = ExperimentConfig, **given: Any) -> Any:
        """The config of a mode, with the change if the mode reads it."""
        values: dict[str, Any] = {"mode": mode, **given}
        if "model" in settings_of(mode) and "export_dir" not in given:
            values.update(model="dnn", model_params={"hidden_units": [3]}, spec=self.spec_path)
        change = self.change
        if change is not None and change.of == "setting":
            values[change.name] = change.value
        if change is not None and change.of == "parameter":
            values["model_params"] = {**values["model_params"], change.name: change.value}
        return ek.ExperimentConfig(**values)

    def training(self, model_dir: str) -> Any:
        return self.config(
            "train_and_evaluate", model_dir=model_dir, train_files=self.files(*DAYS[:2]),
            eval_files=self.files(DAYS[2]), batch_size=10, max_steps=2, report="off",
            exporters=("best", "final"),
        )  # fmt: skip


def write_data(folder: pathlib.Path, seed: int = 1) -> None:
    """A day of records for each of `DAYS`, and two CSV files."""
    rng = random.Random(seed)
    for number, day in enumerate(DAYS):
        rows = [
            {
                "price": rng.randrange(40) / 4, "city": rng.choice(["rome", "oslo", "lima"]),
                "tags": rng.sample("abc", 2), "user": rng.randrange(5), "unread": 1.0,
                "click": i % 2, "level": ["low", "mid", "high"][i % 3],
            }
            for i in range(20)
        ]  # fmt: skip
        place = folder / f"dt={day}"
        place.mkdir(exist_ok=True)
        writing.write_examples(f"{place}/part-0.tfrecord", rows)
        (place / "_SUCCESS").touch()
        if number < 2:
            lines = [",".join(rows[0])]
            for row in rows:
                lines.append(",".join(str(v[0] if v == row["tags"] else v) for v in row.values()))
            (folder / f"table-{number}.csv").write_text("\n".join(lines) + "\n")


# What only a cycle, or only a reader of tables, uses of a spec.
CYCLE_SECTIONS = ("drift", "retraining", "tables")


@contextlib.contextmanager
def other_rows(folder: pathlib.Path) -> Iterator[None]:
    """The files have other rows in the block, and then their old ones with their old times."""
    files = [*folder.glob("*/*"), *folder.glob("*.csv")]
    kept = {path: (path.read_bytes(), path.stat()) for path in files}
    write_data(folder, seed=2)
    try:
        yield
    finally:
        for path, (content, stat) in kept.items():
            path.write_bytes(content)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


class Artifact:
    """An artifact. `folder` is where it was written, or a copy.

    Attributes:
      mode: the mode whose settings its readers read; None if they read no setting.
      fields, parameters: whether its readers read the spec, and parameters of the model.
      made_from: another artifact, of whose folder a copy is made first.
      is_fast: whether nothing is trained for it.
      is_copied: whether `read` may write, so that it needs a copy.
    """

    mode: Optional[str] = None
    fields, parameters = True, False
    made_from: Optional[type[Artifact]] = None
    is_fast = True
    is_copied = True

    def reads(self, change: Change) -> bool:
        """Whether a reader can be given this change."""
        if change.of == "setting":
            return self.mode is not None and change.name in settings_of(self.mode)
        return self.fields if change.of == "field" else self.parameters

    def uses(self, change: Change) -> bool:
        """Whether it is made with what changes. Only that counts, whatever the row says."""
        return not change.name.startswith("features.unread.")

    def also(self, change: Change) -> bool:
        """Whether the change is one of those that the row has in its column `also`."""
        return False

    def named(self, change: Change) -> str:
        """How a refusal names the change."""
        return str(change)

    def make(self, folder: pathlib.Path, start: Start) -> None:
        """Writes it. By default `made_from` has written it."""

    def read(self, folder: pathlib.Path, start: Start) -> Optional[str]:
        raise NotImplementedError


@functools.cache
def outline_of(change: Optional[Change], data: pathlib.Path) -> model_outline.ModelOutline:
    """The outline of the model under a change. Settings do not change the graph of this model."""
    start = Start(data, change)
    return model_outline.outline(make_model(start.training("none"), start.spec))


def refusal(check: Callable[..., Any], *arguments: Any) -> str:
    try:
        check(*arguments)
    except CheckpointError as error:
        return str(error)
    return ""


class Checkpoint(Artifact):
    mode, parameters, is_fast = "train_and_evaluate", True, False

    def make(self, folder, start):
        ek.run(start.training(f"{folder}/model"))

    def read(self, folder, start):
        """Both a training that goes on, and an evaluation, prediction or export, check it."""
        config, spec, outline = start.training(f"{folder}/model"), start.spec, start.outline
        command, model = command_of(config), make_model(config, spec)
        shapes = {name: outline.variables[name] for name in outline.weights}
        weights = model_outline.ModelWeights(shapes, outline.metrics, outline.places)
        with mock.patch.object(model_outline, "weights_of", lambda model: weights):
            (problem,) = {
                refusal(check_start, command.run, spec, model, outline),
                refusal(trained_estimator, command, spec, model),
            }
        if problem:
            raise CheckpointError(problem)
        return None


class WarmStart(Artifact):
    mode, parameters, is_fast = "train_and_evaluate", True, False
    made_from = Checkpoint

    def named(self, change):
        return change.name.split(".")[1] if change.of == "field" else change.name

    def read(self, folder, start):
        config = start.training(f"{folder}/new").model_copy(
            update={"warm_start_from": f"{folder}/model"}
        )
        params = make_model(config, start.spec).params
        with mock.patch.object(warm_start, "logger") as log, mock.patch.object(plan, "_log", log):
            found = plan.find_warm_start(config, config, start.spec, params, start.outline)
        said = [str(call.args) for call in log.warning.call_args_list]
        assert all(self.named(start.change) in text for text in said), said
        if said:
            return "is said"
        return "moved by their names" if found.remapped else None


class Position(Artifact):
    mode, parameters, is_fast = "train_and_evaluate", True, False
    made_from = Checkpoint

    def also(self, change):
        return change.name == "batch_size"

    def read(self, folder, start):
        config = start.training(f"{folder}/model")
        step = reading.latest_step(config.model_dir)
        found = TrainingInput.of(command_of(config), start.spec).position(step)
        assert found.steps_read in (0, step) and step == 2
        return None if found.steps_read else "counted again from 0"


def scores_of(folder: pathlib.Path, start: Start) -> ScoresMeaning:
    config = start.training(f"{folder}/model")
    model = make_model(config, start.spec)
    return ScoresMeaning.of(command_of(config), start.spec, model, [*config.eval_files], {})


def is_finished(folder: pathlib.Path, start: Start, scores: ScoresMeaning) -> bool:
    """Whether a start with these scores finds nothing to do."""
    config = start.training(f"{folder}/model")
    finished = Plan(2, 2, "max_steps", None, mock.sentinel.position)
    try:
        model = make_model(config, start.spec)
        assert trained_before(command_of(config), start.spec, model, finished, scores) is not None
    except NothingToDo:
        return True
    return False


class Scores(Artifact):
    mode, parameters, is_fast = "train_and_evaluate", True, False
    made_from = Checkpoint

    def uses(self, change):
        # Without --eval_steps, no metric of this model depends on the batches.
        return super().uses(change) and change.name != "eval_batch_size"

    def also(self, change):
        return change.section in ("features", "labels") and "values" in change.aspects

    def read(self, folder, start):
        scores = scores_of(folder, start)
        history = EvaluationHistory(f"{folder}/model")
        config = Start(start.data).training(f"{folder}/model")
        best = kinds.exporters_of(config, config, scores)[0]
        goes_on = is_finished(folder, Start(start.data), scores)
        assert len(history.read()) == 1
        assert bool(history.alike(scores)) == (best.newest is not None) == goes_on
        return None if goes_on else "begin again"


class Exports(Artifact):
    mode, parameters, is_fast = "train_and_evaluate", True, False
    made_from = Checkpoint

    def read(self, folder, start):
        scores = scores_of(folder, Start(start.data))
        return None if is_finished(folder, start, scores) else "written again, without a training"


class Resumed(Artifact):
    mode, parameters, is_fast = "train_and_evaluate", True, False
    made_from = Checkpoint

    def uses(self, change):
        return super().uses(change) and change.section not in CYCLE_SECTIONS

    def read(self, folder, start):
        config = start.training(f"{folder}/model")
        model = make_model(config, start.spec)
        with mock.patch.object(run_record, "_log") as log:
            run_record.say_changes(command_of(config), start.spec, model, 2)
        if not log.info.called:
            return None
        (call,) = log.info.call_args_list
        assert f"{start.change}: was " in call.args[-1]
        return "a line in the log names them once"


class RowsOfAFile(Artifact):
    is_fast = False

    def uses(self, change):
        return super().uses(change) and change.section not in CYCLE_SECTIONS

    def also(self, change):
        return change.name == "objectives.click.group_by"

    def make(self, folder, start):
        self.read(folder, start)

    def read(self, folder, start):
        paths = start.files(DAYS[0])
        with mock.patch.object(data_scan, "scan", wraps=data_scan.scan) as scan:
            Facts(str(folder / "facts"), start.spec).of_files(paths)
        with RowCache(str(folder / "rows"), limit=2**30) as cache:
            for _ in cache.rows(start.spec).blocks(paths, interleaved=False):
                pass
        assert cache.counts.misses == scan.called * len(paths)
        return "made again" if scan.called else None


class Conversion(Artifact):
    mode = "convert"

    def uses(self, change):
        return change.of == "setting" or change.section in ("features", "labels", "tables")

    def named(self, change):
        if change.section == "tables" or change.name.startswith("csv_"):
            return change.name.rpartition("csv_")[2]
        return "the feature spec" if change.of == "field" else change.name.partition("_")[2]

    def _config(self, folder, start):
        return start.config(
            "convert", spec=start.spec_path, convert_files=(f"{start.data}/table-*.csv",),
            convert_dir=f"{folder}/records", split="rows", split_eval=0.5,
        )  # fmt: skip

    def make(self, folder, start):
        convert.run_conversion(command_of(self._config(folder, start)))
        for name in ("_SUCCESS", "eval-00000-of-00001.tfrecord"):
            (folder / "records" / name).unlink()

    def read(self, folder, start):
        assert "  1 shard existed already" in convert.run_conversion(
            command_of(self._config(folder, start))
        )
        return None


class Predictions(Artifact):
    mode, fields, is_fast = "predict", False, False
    made_from = Checkpoint

    def named(self, change):
        names = {"csv_comment": "comment", "predict_outputs": "outputs", "keep_columns": "columns"}
        return names.get(change.name, change.name)

    def _config(self, folder, start):
        (export,) = glob.glob(f"{folder}/model/export/final/*")
        return start.config(
            "predict", ek.ExperimentConfig, export_dir=export, processes=1,
            predict_files=(f"{start.data}/table-*.csv",), predict_dir=f"{folder}/predicted",
        )  # fmt: skip

    def make(self, folder, start):
        scoring.run(command_of(self._config(folder, start)))
        for name in ("_SUCCESS", "table-1.csv"):
            (folder / "predicted" / name).unlink()

    def read(self, folder, start):
        with mock.patch.object(scoring, "_predicted") as predicted:  # After the checks.
            scoring.run(command_of(self._config(folder, start)))
        assert predicted.called
        return None


class Cycle(Artifact):
    """A cycle that the gate has refused."""

    mode, parameters, is_fast = "retrain", True, False

    def _config(self, folder, start):
        return start.config(
            "retrain", ExperimentConfig, model_dir=f"{folder}/model", batch_size=10, max_steps=2,
            train_files=(f"{start.data}/dt=*/*.tfrecord",), window="2d", as_of=DAYS[2],
            report="off",
        )  # fmt: skip

    def make(self, folder, start):
        try:
            cycle.run(command_of(self._config(folder, start)))
        except Refused:
            return
        raise AssertionError("the gate has not refused the cycle")

    def decision(self, folder, start):
        """`same`, `new`, or `judged again`: what a start does with the refused cycle."""
        ran = []
        config = self._config(folder, start)
        run_stages = lambda start, folder, *rest: ran.append(folder)  # noqa: E731
        with mock.patch.object(cycle._Command, "_run_stages", run_stages):
            try:
                cycle.run(command_of(config))
            except NothingToDo:
                return "same"
        (folder,) = ran
        (before, *_) = cycle_files.cycles(config.model_dir)
        if folder.name != before.name:
            assert before.load(Judged) is not None
            return "new"
        assert before.load(Judged) is before.load(Checked) is None
        assert before.load(Trained) is not None
        return "judged again"

    def read(self, folder, start):
        return "a new cycle" if self.decision(folder, start) == "new" else None


class Verdict(Cycle):
    made_from, make = Cycle, Artifact.make

    def read(self, folder, start):
        is_again = self.decision(folder, start) == "judged again"
        return "checked and judged again, without a training" if is_again else None


@functools.cache
def loaded(export: str) -> LoadedModel:
    return exports.load(export)


@functools.cache
def answers(export: str, data: pathlib.Path, change: Optional[Change]) -> dict[str, np.ndarray]:
    """What the gate takes as the answers of a live model under a spec with a change."""
    start, names = Start(data, change), [*DOCUMENT["objectives"]]
    rows = EvalRows(start.spec, start.files(DAYS[2]), features=(), batch_size=100)
    return rows.predictions(export, names, all_of_them=False, model=loaded(export))


class Live(Artifact):
    is_fast, is_copied = False, False
    made_from = Checkpoint

    def read(self, folder, start):
        (export,) = glob.glob(f"{folder}/model/export/final/*")
        now, before = (answers(export, start.data, each) for each in (start.change, None))
        assert now.keys() == before.keys() == DOCUMENT["objectives"].keys()
        same = all(np.array_equal(now[name], before[name]) for name in now)
        return None if same else "mapped by words"


class Search(Artifact):
    """A search with a trial that has ended and one that has not."""

    mode, parameters = "tune", True

    def uses(self, change):
        return super().uses(change) and change.section not in CYCLE_SECTIONS

    def named(self, change):
        if change.of == "field":
            return "meaning of --spec"
        return "--model_params" if change.of == "parameter" else str(change)

    def _study(self, folder, start):
        config = start.config(
            "tune", model_dir=f"{folder}/search", search="search.yaml", max_steps=2,
            batch_size=10, train_files=start.files(*DAYS[:2]), eval_files=start.files(DAYS[2]),
        )  # fmt: skip
        search = search_file.parse({
            "metric": "loss", "trials": 2, "parameters": {"learning_rate": {"range": [0.1, 0.2]}},
        })  # fmt: skip
        return SearchStudy(
            config.model_dir, search, definition(command_of(config), start.spec, [config.model])
        )

    def make(self, folder, start):
        study = self._study(folder, start)
        study.finish(study.claim(), "done", value=0.5, seconds=1.0)
        study.release(study.claim())

    def read(self, folder, start):
        study = self._study(folder, start)
        assert [trial.state for trial in study.trials()] == ["done", "running"]
        return None


class Cluster(Search):
    mode = "train_and_evaluate"

    def make(self, folder, start):
        goal = goal_of(start.training(f"{folder}/model"), start.spec)
        Marks(f"{folder}/model").write("end", status=DONE, goal=goal)

    def read(self, folder, start):
        # The goal has no folder: a task on another machine may have another one.
        goal = goal_of(start.training(f"{folder}/model"), start.spec)
        view = ClusterView("127.0.0.1:1", (), ("127.0.0.1:2",), (), "ps", 0)
        watch = Watch(view, Marks(f"{folder}/model"), seconds=1.0, goal=goal)
        return None if watch.may_be_over() else "another goal"


# By the names in `compared`.
ARTIFACTS: dict[str, Artifact] = {
    "CHECKPOINT": Checkpoint(),
    "WARM_START": WarmStart(),
    "POSITION": Position(),
    "SCORES": Scores(),
    "EXPORTS": Exports(),
    "RESUMED": Resumed(),
    "ROWS_OF_A_FILE": RowsOfAFile(),
    "CONVERSION": Conversion(),
    "PREDICTIONS": Predictions(),
    "CYCLE": Cycle(),
    "VERDICT": Verdict(),
    "LIVE": Live(),
    "SEARCH": Search(),
    "CLUSTER": Cluster(),
}
