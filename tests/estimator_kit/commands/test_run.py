"""commands.run: the program and `ek.run` go through one table."""

from __future__ import annotations

import importlib
import json

import pytest

import estimator_kit as ek
from estimator_kit import commands
from estimator_kit.config.flags import resolved_flags
from estimator_kit.config.modes import MODES, module_of, settings_of
from estimator_kit.main import main
from estimator_kit.result import EvaluationResult, RunResult
from estimator_kit.scoring import export_evaluation

NEEDED = {
    "spec": "s", "model_dir": "m", "epochs": 1, "train_files": "dt=*/t", "eval_files": "dt=*/e",
    "predict_files": "p", "schema_file": "s", "analysis_dir": "a",
    "convert_files": "c", "convert_dir": "c", "export_dir": "e", "transform": "text",
    "transform_dir": "t", "data_service": "grpc://h:1", "serving_models": "a=b",
    "serving_config_dir": "d", "to": 3, "cycle": "0007", "window": "5d", "labels": "l",
    "search": "s", "request_logs": "l",
}  # fmt: skip


def fields_of(mode):
    """Settings with which a mode can be asked for."""
    unfit = {"analyze": ("spec",), "schema": ("spec",), "retrain": ("data_service", "export_dir"),
             "train": (), "predict": ()}.get(mode, ())  # fmt: skip
    read = settings_of(mode)
    return {name: value for name, value in NEEDED.items() if name in read and name not in unfit}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_runs_through_both(monkeypatch, tmp_path, capsys, mode):
    module = importlib.import_module(f"estimator_kit.commands.{module_of(mode)}")
    seen = []

    def run(command, tell, answers=None):
        seen.append(command)
        tell(f"this is {mode}")
        return RunResult(mode=mode, global_step=len(seen))

    monkeypatch.setattr(module, "run", run)
    config = ek.ExperimentConfig(mode=mode, **fields_of(mode))
    assert ek.run(config).global_step == 1
    assert capsys.readouterr().out == ""
    file = tmp_path / "x.flags"
    file.write_text(resolved_flags(config))
    assert main(["run.py", f"--flagfile={file}"]) == 0
    shown = capsys.readouterr()
    assert f"this is {mode}\n" in shown.out + shown.err
    assert type(seen[0]) is type(seen[1]) is MODES[mode]
    assert dict(seen[0].settings) == dict(seen[1].settings) == dict(config)


def test_a_text_of_ek_run_is_logged(monkeypatch, caplog):
    module = importlib.import_module("estimator_kit.commands.serve")

    def run(command, tell):
        tell("written")
        return RunResult(mode=command.program.mode)

    monkeypatch.setattr(module, "run", run)
    config = ek.ExperimentConfig(mode="serve", **fields_of("serve"))
    with caplog.at_level("INFO", "estimator_kit"):
        commands.run(config)
    assert caplog.messages == ["written"]


def test_ek_run_launches_no_cluster():
    config = ek.ExperimentConfig(**fields_of("train"), mode="train", launch_local="chief:1,ps:1")
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config)
    assert str(error.value) == (
        "launch_local: ek.run trains in this process, got 'chief:1,ps:1'. Start a local cluster "
        "with the program, `python run.py --launch_local=...`, or remove launch_local."
    )


def test_ek_run_prints_no_predictions():
    config = ek.ExperimentConfig(mode="predict", spec="s", model_dir="m", predict_files="p")
    with pytest.raises(ek.ConfigError) as error:
        ek.run(config)
    assert str(error.value) == (
        "predict_output is missing. ek.run prints no predictions: name a .jsonl or .tfrecord file."
    )


def test_only_the_program_prints_the_metrics_of_an_export(monkeypatch, capsys):
    module = importlib.import_module("estimator_kit.commands.evaluate")
    result = EvaluationResult(
        mode="evaluate", eval_name="e", eval_files=["f"], metrics={"loss": 0.5}
    )
    evaluated = export_evaluation.Evaluated(result, None, "a table")
    monkeypatch.setattr(module.export_evaluation, "evaluate", lambda config: evaluated)
    config = ek.ExperimentConfig(mode="evaluate", export_dir="e", eval_files="f")
    assert ek.run(config).metrics == {"loss": 0.5}
    assert capsys.readouterr().out == ""
    assert main(["run.py", "evaluate", "--export_dir=e", "--eval_files=f"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == result.as_json() and shown.err == "a table\n"


def test_modes_that_fell_through_now_run(tmp_path):
    """convert and serve were read as trainings by `ek.run`."""
    table = tmp_path / "a.jsonl"
    table.write_text(json.dumps({"x": 1}) + "\n")
    result = ek.run(
        ek.ExperimentConfig(
            mode="convert", convert_files=str(table), convert_dir=str(tmp_path / "out")
        )
    )
    assert result.mode == "convert" and list((tmp_path / "out").glob("*.tfrecord"))
