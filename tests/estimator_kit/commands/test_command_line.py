"""command_line: a mode as first word, flags that a mode does not read, and help."""

from __future__ import annotations

import typing

import pytest

from estimator_kit import main as program
from estimator_kit.commands import command_line
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import MODES, PURPOSES, Mode
from estimator_kit.config.settings import TrainingSettings, modes_that_read, settings_of
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
    assert {entry.purpose for entry in MODES.values()} == set(PURPOSES)


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_reads_settings_that_exist(mode):
    assert settings_of(mode) <= set(ExperimentConfig.model_fields)


def test_every_setting_is_read_by_a_mode_that_does_something_with_it():
    unused = [n for n in ExperimentConfig.model_fields if modes_that_read(n) == ["validate"]]
    assert unused == ["validate_rows", "baseline_files", "baseline_statistics"]


# --- The mode as first word -----------------------------------------------------------------------


def test_the_first_word_may_be_the_mode():
    assert command_line.with_mode(["serve", "--seed=1"]) == ["--mode=serve", "--seed=1"]
    assert command_line.with_mode(["serve", "--mode=serve"]) == ["--mode=serve", "--mode=serve"]
    assert command_line.with_mode(["--mode=serve"]) == ["--mode=serve"]
    assert command_line.with_mode([]) == []


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["serv"], "'serv' is not a mode. Did you mean 'serve'? --help lists the modes. Every "
                   "other argument is --flag=value."),
        (["serve", "--mode=train"],
         "the mode is given twice, as serve and as --mode=train; drop one"),
        (["serve", "--mode", "train"],
         "the mode is given twice, as serve and as --mode=train; drop one"),
    ],
)  # fmt: skip
def test_a_first_word_that_is_no_mode_or_a_second_one(arguments, message):
    with pytest.raises(ConfigError) as error:
        command_line.with_mode(arguments)
    assert str(error.value) == message


def test_the_first_word_goes_before_the_mode_of_a_flagfile(tmp_path, capsys):
    file = tmp_path / "x.flags"
    file.write_text("--mode=train\n--spec=feature_specs/catalog/ads.yaml\n")
    code, out, _ = told(capsys, "validate", f"--flagfile={file}")
    assert code == 0 and out.startswith("feature_specs/catalog/ads.yaml: the spec and the flags")


# --- Flags that the mode does not read ------------------------------------------------------------


@pytest.mark.parametrize(
    "argument, message",
    [
        ("--serving_threads=3", "--serving_threads is not read by --mode=convert, but by serve and "
                                "serving_config; drop it"),
        ("--noforce", "--force is not read by --mode=convert, but by retrain; drop it"),
        ("--validate_rows=3", "--validate_rows is not read by --mode=convert, but by validate; "
                              "drop it"),
    ],
)  # fmt: skip
def test_a_flag_on_the_command_line_that_the_mode_does_not_read(capsys, argument, message):
    given = ("convert", "--convert_files=a", "--convert_dir=b", "--seed=3", "--batch_size=9")
    code, out, err = told(capsys, *given, argument)
    assert (code, out) == (2, "")
    assert err.endswith(message + "\n") and "--batch_size is not read by --mode=convert" in err


def test_a_flagfile_may_have_flags_of_other_modes(tmp_path):
    file = tmp_path / "x.flags"
    file.write_text("--serving_threads=3\n")
    command_line.check_read([f"--flagfile={file}", "--seed=1"], "convert")


# --- Help -----------------------------------------------------------------------------------------


def test_help_is_one_screen(capsys):
    code, out, _ = told(capsys, "--help")
    lines = out.splitlines()
    assert code == 0 and len(lines) <= 40 and max(map(len, lines)) <= 100
    for mode in MODES:
        assert f"\n  {mode} " in out


def test_the_help_of_a_mode_has_its_flags_alone(capsys):
    code, out, _ = told(capsys, "serve", "--help")
    assert code == 0 and "  --serving_threads=INTEGER  (default: 16)\n" in out
    assert not [name for name in TrainingSettings.model_fields if f"--{name}" in out]
    assert told(capsys, "--mode=serve", "--help")[1] == out


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_has_help(mode):
    text = command_line.mode_help(mode)
    shown = {line.split("=")[0].split(",")[0].strip().lstrip("-") for line in text.splitlines()
             if line.startswith("  --")}  # fmt: skip
    assert shown == settings_of(mode) - {"mode"}


def test_all_flags_and_exit_statuses(capsys):
    code, out, _ = told(capsys, "--helpfull")
    assert code == 0
    for name in ExperimentConfig.model_fields:
        assert f"\n  --{name}" in out
    assert "\n   75  " in out


def test_help_of_what_is_no_mode(capsys):
    code, _, err = told(capsys, "--mode=serv", "--help")
    assert code == 2
    assert err == "error: --mode=serv is not a mode. Did you mean 'serve'? See --help.\n"
