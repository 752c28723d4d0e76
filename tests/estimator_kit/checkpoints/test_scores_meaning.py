"""What counts for the meaning of scores, and what does not."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of
from estimator_kit.errors import ConfigError
from estimator_kit.models import MODELS
from feature_specs.parser import parser


@pytest.fixture
def found(tmp_path, document):
    """The meaning of a start; what is given changes it."""
    (tmp_path / "data").mkdir()
    for name in ("a", "b"):
        (tmp_path / "data" / name).write_bytes(name.encode() * 100_000)

    def find(files=None, params=(), left_out=(), model=MODELS["dnn"], **settings):
        config = ExperimentConfig(**{
            "spec": "s.yaml", "model_dir": str(tmp_path / "model"), "train_files": ("t",),
            "eval_files": ("e",), "max_steps": 1, **settings,
        })  # fmt: skip
        files = [str(tmp_path / "data" / name) for name in ("a", "b")] if files is None else files
        spec = parser.parse(document)
        made = model(spec, dict(params))
        return ScoresMeaning.of(command_of(config), spec, made, files, dict(left_out))

    return find


def test_what_changes_scores_is_named(found, tmp_path, document):
    first = found()
    assert first.changes == [] and first.unmarked == first.digest
    first.write(str(tmp_path / "model"))
    assert found(eval_steps=5).changes == ["--eval_steps: was absent, is 5"]
    assert found(params={"regularizer": {"l2": 0.1}}.items()).changes == [
        '--model_params regularizer: was absent, is {"l2": 0.1}'
    ]
    assert found(left_out={"a": "9f"}.items()).changes == ['records left out: was [], is ["9f"]']
    document["objectives"]["buy"]["loss_weight"] = 2.0
    other = found()
    assert other.changes == ["objectives.buy.loss_weight: was 0.5, is 2.0"]
    assert not other.is_of(first.digest) and other.is_of(other.digest)
    assert not other.is_of(None)  # It belongs to the meaning before.


def test_a_filter_counts_with_the_default_of_its_feature(found, tmp_path, document):
    found().write(str(tmp_path / "model"))
    document["filter"] = [{"feature": "age", "min": 18}]
    document["features"]["age"] = {"dtype": "float32", "default": 0.0}
    first = found()
    assert [change.partition(":")[0] for change in first.changes] == ["features.age", "filter.0"]
    first.write(str(tmp_path / "model"))
    document["features"]["age"]["default"] = 20.0
    assert found().changes == ["features.age.default: was 0.0, is 20.0"]


def test_what_changes_no_score_does_not_count(found, tmp_path, document):
    first = found()
    first.write(str(tmp_path / "model"))
    document["objectives"]["click"]["metrics"] = ["log_loss"]
    document["features"]["user"]["default"] = ""
    again = found(
        batch_size=7, epochs=2, seed=3, eval_name="x", best_metric="auc/click",
        early_stopping_metric="loss", params={"learning_rate": 0.3}.items(),
    )  # fmt: skip
    assert again.changes == [] and again.digest == first.digest


class OwnMetrics(MODELS["dnn"]):
    def metrics(self, labels, predictions, weights, features):
        return {}


def test_the_size_of_batches_counts_where_a_metric_sees_them(found, tmp_path, document):
    def change(**given):
        """How the meaning changes with the size of the batches."""
        found(**given).write(str(tmp_path / "model"))
        return found(eval_batch_size=7, **given).changes

    told = ["--eval_batch_size: was 2048, is 7"]
    assert change() == []
    assert change(eval_steps=5) == told  # Then 35 rows are evaluated.
    assert change(model=OwnMetrics) == told
    towers = {"user_group": "users", "item_group": "items", "item_id": None}
    document["groups"].update(users=["price"], items=["city_hot"])
    assert change(model=MODELS["two_tower"], params=towers.items()) == told
    document["labels"]["grade"] = {"dtype": "int64"}
    document["objectives"]["grade"] = {"head": "ranking", "group_by": "user"}
    assert change() == told


def test_a_directory_that_counts_the_size_of_batches_goes_on(found, tmp_path):
    first = found()
    first.write(str(tmp_path / "model"))
    path = tmp_path / "model" / "eval_meaning.json"
    kept = json.loads(path.read_text())
    kept["meaning"]["--eval_batch_size"] = 2048  # As the version before wrote it for every model.
    path.write_text(json.dumps({**kept, "scores": "before"}))
    again = found(eval_batch_size=7)
    assert (again.changes, again.digest) == ([], "before")


def test_files_are_the_same_by_their_content(found, tmp_path):
    first = found()
    first.write(str(tmp_path / "model"))
    shutil.copytree(tmp_path / "data", tmp_path / "fetched")
    os.rename(tmp_path / "fetched" / "a", tmp_path / "fetched" / "z")
    moved = [str(tmp_path / "fetched" / name) for name in ("b", "z")]
    os.utime(moved[0], (1, 1))
    assert found(moved).digest == first.digest
    with open(moved[0], "r+b") as file:
        file.write(b"other")
    assert found(moved).changes[0].startswith('files of --eval_files: was {"bytes": 200000, "c')
    assert found(moved[:1]).digest != first.digest


def test_what_one_version_does_not_know_contradicts_nothing(found, tmp_path):
    first = found()
    first.write(str(tmp_path / "model"))
    path = tmp_path / "model" / "eval_meaning.json"
    kept = json.loads(path.read_text())
    for place in ("--eval_steps", "--model_params regularizer", "objectives.buy.reduction"):
        del kept["meaning"][place]
    kept["meaning"]["objectives.buy.removed"] = 1
    path.write_text(json.dumps({"scores": "of another version", "meaning": kept["meaning"]}))
    again = found(eval_steps=5)
    assert (again.changes, again.digest) == ([], "of another version")
    again.write(str(tmp_path / "model"))
    assert found(eval_steps=6).changes == ["--eval_steps: was 5, is 6"]


def test_a_directory_of_the_version_before_has_the_files_as_they_were_spelled(found, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "flags.txt").write_text("--batch_size=7\n--eval_files=e\n--eval_steps=5\n")
    same = found(eval_steps=5)
    assert same.changes == [] and same.is_of(None)
    other = found(eval_steps=5, eval_files=("e", "new"))
    assert other.changes == ['--eval_files: was ["e"], is ["e", "new"]']
    assert not other.is_of(None)
    assert found(eval_steps=6).changes == ["--eval_steps: was 5, is 6"]
    # A start that is killed before its first evaluation has replaced flags.txt.
    other.begin(str(folder))
    (folder / "flags.txt").write_text("--eval_files=e,new\n--eval_steps=5\n")
    again = found(eval_steps=5, eval_files=("e", "new"))
    assert again.digest == other.digest and not again.is_of(None)


def test_rows_of_a_function_count_by_their_bytes_and_version(found, tmp_path):
    own = {"eval_files": (), "train_files": (), "input_fn": "my_rows:read"}
    found(**own).write(str(tmp_path / "model"))
    reversed_file = tmp_path / "reversed"
    reversed_file.write_bytes(b"b" * 100_000 + b"a" * 100_000)
    assert found([str(reversed_file)], **own).changes == []
    assert found(**own, input_version="2").changes == ['--input_version: was absent, is "2"']
    reversed_file.write_bytes(b"b" * 100_000)
    assert found([str(reversed_file)], **own).changes == [
        'rows of --input_fn: was {"bytes": 200000}, is {"bytes": 100000}'
    ]


def test_a_damaged_file_is_named(found, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "eval_meaning.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"eval_meaning\.json: scores is missing\. Repair or"):
        found()
