"""command_line: a mode as first word, flags that a mode does not read, and help."""

from __future__ import annotations

import importlib.util
import typing

import pytest

from estimator_kit import main as program
from estimator_kit.commands import command_line
from estimator_kit.config.areas import AREAS
from estimator_kit.config.areas.program import Mode
from estimator_kit.config.areas.training import Training
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.flags import read_command_line
from estimator_kit.config.modes import (
    MODES,
    PURPOSES,
    areas_of,
    by_name,
    modes_that_read,
    settings_of,
)
from estimator_kit.errors import ConfigError

pytestmark = pytest.mark.no_tensorflow


def told(capsys, *arguments):
    """The exit status, standard output and standard error of a command line."""
    code = program.main(["run.py", *arguments])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


# --- The table ------------------------------------------------------------------------------------


def test_the_table_has_every_mode():
    assert sorted(MODES) == sorted(typing.get_args(Mode))
    assert {*areas_of(MODES["validate"]).values()} == {*AREAS}
    assert {entry.purpose for entry in MODES.values()} == set(PURPOSES)


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_reads_settings_that_exist(mode):
    assert settings_of(mode) <= set(ExperimentConfig.model_fields)
    areas = areas_of(MODES[mode]).values()
    assert {*by_name(MODES[mode].refuses)} <= {n for area in areas for n in area.model_fields}


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_reads_what_it_needs(mode):
    for name, instead in MODES[mode].needs.items():
        assert {name, *instead} <= settings_of(mode)


def test_every_setting_is_read_by_a_mode_that_does_something_with_it():
    unused = [n for n in ExperimentConfig.model_fields if modes_that_read(n) == ["validate"]]
    assert unused == ["validate_rows", "baseline"]


@pytest.mark.parametrize(
    ("mode", "settings"),
    [
        ("train", ("eval_files", "eval_days", "eval_batch_size", "exporters", "best_metric",
                   "early_stopping_metric", "predict_files")),
        ("train_and_evaluate", ("eval_name",)),
        ("tune", ("eval_name", "compare", "launch_local", "job_name", "data_service",
                  "prometheus_file")),
        ("evaluate", ("batch_size", "strategy", "exporters", "train_files")),
        ("export", ("exporters", "best_metric", "exports_to_keep", "eval_batch_size",
                    "job_name")),
        ("predict", ("eval_files", "mirrored_devices", "input_cache_dir")),
        ("analyze", ("train_mix", "schema_file")),
        ("transform", ("eval_days",)),
        ("retrain", ("train_days", "train_mix", "warm_start_from", "to", "eval_name",
                     "strategy")),
        ("rollback", ("keep_versions",)),
    ],
)  # fmt: skip
def test_a_mode_takes_no_setting_that_it_does_not_read(mode, settings):
    assert settings_of(mode).isdisjoint(settings)


# --- The mode as first word -----------------------------------------------------------------------


def test_the_first_word_may_be_the_mode():
    assert command_line.with_mode(["serve", "--seed=1"]) == ["--mode=serve", "--seed=1"]
    assert command_line.with_mode(["--mode=serve"]) == ["--mode=serve"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["serv"], "the command line: expected --flag=value or a mode, got 'serv'. Did you mean "
                   "'serve'?"),
        ([], "the command line is empty. Start with `python run.py --flagfile=exp.flags`, or see "
             "`python run.py --help`."),
    ],
)  # fmt: skip
def test_a_command_line_that_does_not_start_right(capsys, arguments, message):
    assert told(capsys, *arguments) == (2, "", f"error: {message}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--mode=train"], ["serve", "--mode", "train"], ["train", "--mode=train"],
        ["--mode=serve", "-mode=train"],
    ],
)  # fmt: skip
def test_the_mode_is_given_once(capsys, arguments):
    assert told(capsys, *arguments) == (
        2,
        "",
        "error: --mode: the mode is given twice, the last time as train. Give it once, as the "
        "first word or as --mode.\n",
    )


def test_the_first_word_goes_before_the_mode_of_a_flagfile(tmp_path, capsys):
    file = tmp_path / "x.flags"
    file.write_text("--mode=train\n--spec=feature_specs/catalog/ads.yaml\n")
    code, out, _ = told(capsys, "validate", f"--flagfile={file}")
    assert code == 0 and out.startswith("feature_specs/catalog/ads.yaml: the spec and the flags")


# --- Flags that the mode does not read ------------------------------------------------------------


@pytest.mark.parametrize(
    "argument, message",
    [
        ("--to=3", "--mode=convert does not read --to. Remove the flag; it is for rollback and "
                   "promote."),
        ("--noforce", "--mode=convert does not read --force. Remove the flag; it is for retrain."),
        ("--validate_rows=3", "--mode=convert does not read --validate_rows. Remove the flag; it "
                              "is for validate."),
    ],
)  # fmt: skip
def test_a_flag_on_the_command_line_that_the_mode_does_not_read(capsys, argument, message):
    given = ("convert", "--convert_files=a", "--convert_dir=b", "--seed=3", "--batch_size=9")
    code, out, err = told(capsys, *given, argument)
    assert (code, out) == (2, "")
    assert message in err and "--mode=convert does not read --batch_size." in err


@pytest.mark.parametrize(
    ("mode", "argument", "remedy"),
    [
        ("inspect", "--to=3", "Remove the flag; it is for --mode=rollback and promote."),
        ("rollback", "--processes=2", "Remove the flag; it is for convert, tune and predict."),
        ("train", "--processes=2", "Remove the flag; it is for convert, tune and predict."),
        (
            "serve",
            "--deterministic",
            "Remove the flag; it is for train_and_evaluate, train, tune, "
            "evaluate, export, predict and retrain.",
        ),
        (
            "convert",
            "--threads=2",
            "Remove the flag; it is for train_and_evaluate, train, tune, "
            "evaluate, export, predict, serve and retrain.",
        ),
        ("inspect", "--cycle=0007", "Remove the flag; it is for --mode=retrain."),
    ],
)
def test_what_to_do_with_a_flag_that_the_mode_does_not_read(mode, argument, remedy):
    name = argument.lstrip("-").partition("=")[0]
    with pytest.raises(ConfigError) as error:
        command_line.check_read(read_command_line([argument]), mode)
    assert str(error.value) == f"--mode={mode} does not read --{name}. {remedy}"


def test_a_flagfile_may_have_flags_of_other_modes(tmp_path):
    file = tmp_path / "x.flags"
    file.write_text("--serving_batch_rows=3\n--train_files=a\n")
    line = read_command_line([f"--flagfile={file}", "--seed", "1", "--spec", "--batch_size=3"])
    assert line.named == ("spec", "seed") and line.values["spec"].value == "--batch_size=3"
    command_line.check_read(line, "convert")
    line = read_command_line([f"--flagfile={file}", "--train_files=b"])
    with pytest.raises(ConfigError):
        command_line.check_read(line, "serve")


# --- Help -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["--help", "-help", "-h"])
def test_help_is_one_screen(capsys, flag):
    code, out, _ = told(capsys, flag)
    lines = out.splitlines()
    assert code == 0 and len(lines) <= 40 and max(map(len, lines)) <= 100
    for mode in MODES:
        assert f"\n  {mode} " in out


def test_the_help_of_a_mode_has_its_flags_alone(capsys):
    code, out, _ = told(capsys, "serve", "--help")
    assert code == 0 and "  --serving_rest_port=INTEGER  (default: 8501)\n" in out
    assert not [name for name in Training.model_fields if f"--{name}" in out]
    assert told(capsys, "--mode=serve", "--help")[1] == out


def test_the_help_of_the_mode_of_a_flagfile(tmp_path, capsys):
    file = tmp_path / "x.flags"
    file.write_text("--mode=serve\n")
    code, out, _ = told(capsys, "--help", f"--flagfile={file}")
    assert code == 0 and out.startswith("python run.py serve: ")
    assert told(capsys, "rollback", f"--flagfile={file}", "--help")[1].startswith(
        "python run.py rollback: "
    )


def test_help_says_what_a_mode_requires(capsys):
    out = told(capsys, "evaluate", "--help")[1]
    assert "  --eval_files=A,B,...  (required unless you give --input_fn)\n" in out
    assert "  --model_dir=TEXT  (required unless you give --export_dir)\n" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["validate", "--spec", "--help"], "error: --help: 1 problem in the feature spec\n"),
        (["validate", "--spec=a", "--", "--help"],
         "error: '--help' is not a flag. Write every argument as --flag=value.\n"),
        (["predict", "--export_dir", "a", "/", "/tmp"],
         "error: expected --flag=value, got 2 more paths, the first one '/'. If the shell replaced "
         "a pattern by file names, put it in quotes, as in --train_files='data/*'. A flag for a "
         "folder, such as --export_dir, takes one path.\n"),
    ],
)  # fmt: skip
def test_what_asks_for_no_help(capsys, arguments, message):
    code, out, err = told(capsys, *arguments)
    assert (code, out) == (2, "") and err.startswith(message)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_has_help(mode):
    text = command_line.mode_help(mode)
    shown = {line.split("=")[0].split(",")[0].strip().lstrip("-") for line in text.splitlines()
             if line.startswith("  --")}  # fmt: skip
    assert shown == settings_of(mode) - {"mode"}


def test_a_cycle_that_trains_again_reads_no_flag_but_its_own(capsys):
    code, _, err = told(capsys, "retrain", "--model_dir=m", "--cycle=1", "--epochs=3")
    assert (code, err) == (
        2,
        "error: --mode=retrain does not read --epochs. Remove the flag; --cycle trains with its "
        "own flags.\n",
    )


@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is not None, reason="it is installed")
@pytest.mark.parametrize(
    "flags",
    ["check_data --train_files=a", "data_service", "report --model_dir=m",
     "schema --schema_file=s --spec=a", "analyze --train_files=a --analysis_dir=b --labels=c",
     "inspect --model_dir=m"],
)  # fmt: skip
def test_without_tensorflow_every_mode_says_that_it_is_missing(capsys, flags):
    code, _, err = told(capsys, *flags.split())
    assert code == 2 and err.startswith("error: TensorFlow is not installed. Supported: ")


def test_all_flags_and_exit_statuses(capsys):
    code, out, _ = told(capsys, "--helpfull")
    assert code == 0
    for name in ExperimentConfig.model_fields:
        assert f"\n  --{name}" in out
    assert "\n   75  " in out


def test_help_for_an_unknown_mode(capsys):
    code, _, err = told(capsys, "--mode=serv", "--help")
    assert (code, err) == (2, "error: --mode: unknown mode 'serv'. Did you mean 'serve'?\n")
