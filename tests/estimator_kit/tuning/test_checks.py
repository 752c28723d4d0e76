"""checks: what is wrong with a search is an error before its first trial."""

from __future__ import annotations

import pytest

import estimator_kit as ek
from estimator_kit.config.modes import command_of
from estimator_kit.errors import ConfigError
from estimator_kit.tuning import checks, search_file
from feature_specs.parser import parser


@pytest.fixture
def config_of(ads):
    def make(**changes):
        given = {
            "mode": "tune", "spec": f"{ads}/spec.yaml", "model_dir": "runs/search", "search": "s",
            "train_files": (f"{ads}/train-*",), "eval_files": (f"{ads}/eval.tfrecord",),
            "max_steps": 20, "save_checkpoints_steps": 10, **changes,
        }  # fmt: skip
        return ek.ExperimentConfig(**given)

    return make


def search_of(metric="auc/click", **parameters):
    document = {"metric": metric, "direction": "max", "trials": 3, "parameters": parameters}
    return search_file.parse(document)


def told(config, search):
    with pytest.raises(ConfigError) as error:
        checks.check_names(command_of(config), search, parser.load(config.spec))
    return str(error.value).split("\n")


def test_a_search_that_can_begin(config_of):
    search = search_of(
        learning_rate={"range": [0.01, 0.5], "log": True},
        batch_size={"choice": [20, 50]},
        hidden_units={"choice": [[8], [8, 4]]},
    )
    found = checks.check_names(command_of(config_of()), search, parser.load(config_of().spec))
    assert [made.model_params["learning_rate"] for _, made in found[:3]] == pytest.approx(
        [0.01, 0.01 + 0.49 * 0.381966, 0.5]
    )
    assert {made.batch_size for _, made in found} == {20, 50}
    for _, made in found:
        assert (made.mode, made.model_dir) == ("train_and_evaluate", "runs/search/trials/0000")
    checks.check_models(found, search, parser.load(found[0][1].spec))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"learning_rte": {"range": [0, 1]}},
         "parameters.learning_rte: unknown flag or parameter of the model. Did you mean "
         "'learning_rate'?"),
        ({"batch_sise": {"choice": [1, 2]}},
         "parameters.batch_sise: unknown flag or parameter of the model. Did you mean "
         "'batch_size'?"),
        ({"model_dir": {"choice": ["a", "b"]}},
         "parameters.model_dir: a search cannot set the flag --model_dir. It can set model, "
         "batch_size, epochs,"),
        ({"learning_rate": {"range": [0, 1]}},
         "parameters.learning_rate: with 0.0: model wide_deep: learning_rate: got 0.0, "
         "expected greater than 0"),
        ({"batch_size": {"range": [10, 20]}},
         "parameters.batch_size: with 10.0: --batch_size: expected an integer, got 10.0"),
        ({"batch_size": {"range": [0, 20], "int": True}},
         "parameters.batch_size: with 0: --batch_size: expected at least 1, got 0."),
        ({"optimizer": {"choice": ["adagrad", "adm"]}}, "parameters.optimizer: with 'adm': "),
        ({"model": {"choice": ["dnn", "dcnn"]}},
         "parameters.model: unknown model 'dcnn'. Did you mean 'dnn'? Write your own model as"),
        ({"crosses": {"range": [1, 3], "int": True}},
         "parameters.crosses: unknown flag or parameter of the model"),
    ],
)  # fmt: skip
def test_a_parameter_that_cannot_be_searched(config_of, parameters, message):
    lines = told(config_of(), search_of(**parameters))
    assert any(message in line for line in lines), lines


def test_each_parameter_tells_its_first_problem(config_of):
    search = search_of(clip_norm={"range": [-1, 1]}, learning_rate={"range": [-1, 1]})
    lines = told(config_of(), search)
    assert [line.split(":")[1].strip() for line in lines] == [
        "parameters.clip_norm", "parameters.learning_rate"
    ]  # fmt: skip


def test_a_parameter_of_one_of_several_models(config_of):
    search = search_of(
        model={"choice": ["wide_deep", "dcn"]},
        crosses={"range": [1, 3], "int": True, "when": {"model": "dcn"}},
    )
    config = config_of()
    configs = checks.check_names(command_of(config), search, parser.load(config.spec))
    kind = {made.model for _, made in configs}
    assert kind == {"wide_deep", "dcn"}
    without = search_of(
        model={"choice": ["wide_deep", "dcn"]}, crosses={"range": [1, 3], "int": True}
    )
    lines = told(config_of(), without)
    assert [line.partition(": with")[0] for line in lines] == [
        "<dict>: parameters.model", "<dict>: parameters.crosses"
    ]  # fmt: skip
    assert all("unknown parameter 'crosses'" in line for line in lines)


def test_a_metric_that_the_model_does_not_have(config_of):
    search = search_of("auc/clik", batch_size={"choice": [20, 50]})
    config = config_of()
    configs = checks.check_names(command_of(config), search, parser.load(config.spec))
    with pytest.raises(ConfigError) as error:
        checks.check_models(configs, search, parser.load(config.spec))
    assert str(error.value) == (
        "<dict>: metric: got 'auc/clik', but the model wide_deep has no such metric. Did you mean "
        "'auc/click'?"
    )


def test_a_pruner_needs_checkpoints_at_equal_rows(config_of):
    search = search_of(batch_size={"choice": [20, 50]})
    by_clock = config_of(save_checkpoints_steps=None, save_checkpoints_secs=60)
    assert told(by_clock, search) == [
        "<dict>: pruner: the pruner median compares trials at equal rows, but checkpoints are "
        "saved by the clock. Remove --save_checkpoints_secs, or write `pruner: none`."
    ]
    by_epoch = command_of(config_of(save_checkpoints_steps=None))
    checks.check_names(by_epoch, search, parser.load(by_epoch.run.spec))


def test_a_trial_runs_in_one_process(config_of):
    search = search_of(batch_size={"choice": [20, 50]})
    (line,) = told(config_of(strategy="sync_replicas"), search)
    assert "--strategy=sync_replicas needs a cluster" in line


def test_test_files_are_of_the_search_alone(config_of, ads):
    def check(**changes):
        return checks.check_test_files(command_of(config_of(**changes)))

    assert check() == []
    judging = f"{ads}/eval.tfrecord"
    assert check(eval_files=(judging, f"newer={ads}/e*")) == []  # It only measures.
    with pytest.raises(ConfigError) as error:
        check(test_files=(f"{ads}/e*",))
    assert str(error.value) == (
        f"--eval_files and --test_files share 1 files, the first is {ads}/eval.tfrecord. Score the "
        "best trial on files that the search has not seen."
    )
    with pytest.raises(ConfigError, match="--eval_files and the set test of --eval_files share"):
        check(eval_files=(judging, f"test={ads}/e*"))
    with pytest.raises(ConfigError, match="--test_files"):
        check(test_files=(f"{ads}/none*",))
    with pytest.raises(ConfigError) as error:
        config_of(test_files=(f"{ads}/eval.tfrecord",))
    assert str(error.value) == (
        f"--eval_files and --test_files share {ads}/eval.tfrecord. Score the best trial on files "
        "that the search has not seen."
    )


def test_a_search_needs_a_folder_with_locks(config_of):
    with pytest.raises(ConfigError) as error:
        config_of(model_dir="ram://bucket/search")
    assert str(error.value) == (
        "--model_dir: expected a local or mounted folder, got 'ram://bucket/search'. A search "
        "needs locks, which other file systems do not have."
    )


def test_the_folder_of_a_training_is_refused(tmp_path):
    checks.check_folder(str(tmp_path / "none"))
    (tmp_path / "checkpoint").touch()
    with pytest.raises(ConfigError) as error:
        checks.check_folder(str(tmp_path))
    assert str(error.value) == (
        f"--model_dir={tmp_path} holds a training, and a search needs a separate folder. Choose "
        "another --model_dir."
    )
    (tmp_path / "search.journal").touch()
    checks.check_folder(str(tmp_path))
