"""Settings of earlier versions that are constants now."""

from __future__ import annotations

import pytest

import estimator_kit as ek
from estimator_kit.config.flags import (
    config_from_flagfile,
    config_from_flags,
    read_command_line,
    resolved_flags,
    values_in,
)
from estimator_kit.config.removed import REMOVED, hint

pytestmark = pytest.mark.no_tensorflow

TEXT = (
    ". It was removed. 16 requests of each protocol run at once. For more, use TensorFlow Serving."
)


def test_flags_of_an_earlier_run_can_still_be_read(tmp_path):
    file = tmp_path / "flags.txt"
    values = {name: removed.value for name, removed in REMOVED.items() if removed.value is not None}
    lines = "".join(f"--{name}={value}\n" for name, value in values.items())
    file.write_text(lines + "--mode=serve\n--serving_models=a=b\n")
    assert config_from_flagfile(str(file)).serving_models == ("a=b",)
    assert read_command_line([f"--flagfile={file}"]).values["mode"].value == "serve"
    file.write_text("--serving_threads=8\n--serving_image=a:1\n")
    with pytest.raises(ek.ConfigError) as error:
        config_from_flagfile(str(file))
    assert str(error.value).splitlines() == [
        f"{file}:1: '--serving_threads=8': unknown flag --serving_threads{TEXT}",
        f"{file}:2: '--serving_image=a:1': unknown flag --serving_image. It was removed. The image "
        "belongs to the installed TensorFlow. Write your own into the copy of examples/serving "
        "that you start.",
    ]


# Lines of `flags.txt` of an earlier version, and what this version reads.
REWRITTEN = [
    (["--best_metric=auc/click", "--best_direction=max"], {"best_metric": "auc/click"}),
    (["--best_metric=own/click", "--best_direction=max"], {"best_metric": "max:own/click"}),
    (
        ["--early_stopping_metric=loss", "--early_stopping_direction=max"],
        {"early_stopping_metric": "max:loss"},
    ),
    (
        ["--exporters=latest,best_k,step", "--best_k=2", "--export_every_steps=7"],
        {"exporters": ("latest", "best_k:2", "step:7")},
    ),
    (["--max_bad_records=10"], {"max_bad": "10"}),
    (["--max_bad_fraction=0.01"], {"max_bad": "0.01"}),
    (["--data_service_timeout_secs=5.0", "--profile_input"], {}),
    (["--convert_processes=2", "--tune_processes=3"], {"processes": 3}),
    (["--intra_op_threads=3", "--inter_op_threads=2"], {"threads": 3}),
    (["--window_days=5", "--eval_window_days=2"], {"window": "5d", "eval_window": "2d"}),
    (["--window_min_days=3", "--window_min_rows=3"], {"window_min": ("3d", "3rows")}),
    (["--window_min_days=3"], {"window_min": ("3d",)}),
    (["--window_min_rows=9"], {"window_min": ("9rows",)}),
    (["--window_max_age_days=9"], {"window_max_age": "9d"}),
    (["--lock_stale_secs=5.0", "--nomemory_growth", "--export_check_rows=7"], {}),
]


@pytest.mark.parametrize("lines, fields", REWRITTEN)
def test_an_earlier_run_can_be_read_and_a_flagfile_of_a_person_says_what_to_write(
    tmp_path, lines, fields
):
    common = {"mode": "train", "spec": "s", "model_dir": "m", "train_files": "t", "max_steps": 3}
    common |= {"corrupt_data_policy": "quarantine"} if "max_bad" in fields else {}
    text = "\n".join([*lines, *(f"--{name}={value}" for name, value in common.items())])
    expected = ek.ExperimentConfig(**{**common, **fields})
    kept, own = tmp_path / "flags.txt", tmp_path / "own.flags"
    kept.write_text(text)
    own.write_text(text)
    assert config_from_flagfile(str(kept)) == expected
    assert config_from_flags(read_command_line([f"--flagfile={kept}"]).values) == expected
    changed = [name for name in expected.model_fields_set if name in fields]
    assert values_in(kept.read_text().splitlines(), changed) == values_in(
        resolved_flags(expected).splitlines(), changed
    )
    with pytest.raises(ek.ConfigError) as error:
        read_command_line([f"--flagfile={own}"])
    old = [line for line in lines if hint(line[2:].partition("=")[0])]
    assert len(str(error.value).splitlines()) == len(old)
    assert str(error.value).count(". It was removed. ") == len(old)


def test_a_constant_may_be_written_otherwise(tmp_path):
    file = tmp_path / "own.flags"
    file.write_text("--serving_poll_secs=1\n--mode=serve\n--serving_models=a=b\n")
    assert config_from_flagfile(str(file)).serving_models == ("a=b",)


def test_settings_of_an_included_flags_txt_are_not_lost(tmp_path):
    (tmp_path / "flags.txt").write_text("--tune_processes=4\n--serving_poll_secs=1.0\n")
    outer = tmp_path / "own.flags"
    outer.write_text(f"--flagfile={tmp_path}/flags.txt\n")
    with pytest.raises(ek.ConfigError) as error:
        read_command_line([f"--flagfile={outer}"])
    assert str(error.value) == (
        f"{tmp_path}/flags.txt:1: '--tune_processes=4': unknown flag --tune_processes. It was "
        "removed. Use --processes."
    )


def test_of_two_limits_of_damaged_records_a_person_chooses_one(tmp_path):
    file = tmp_path / "flags.txt"
    file.write_text("--max_bad_records=10\n--max_bad_fraction=0.5\n")
    with pytest.raises(ek.ConfigError) as error:
        config_from_flagfile(str(file))
    assert str(error.value).endswith(
        "--max_bad_records=10 and --max_bad_fraction=0.5: only one limit is left. Remove one of "
        "the two lines, or both, and give --max_bad."
    )
    names = ["max_bad", "epochs"]
    assert values_in(file.read_text().splitlines(), names) == values_in([], names)


@pytest.mark.parametrize("name", sorted(REMOVED))
def test_a_removed_setting_says_what_to_do_instead(name):
    expected = f"{name}. It was removed. {REMOVED[name].instead}"
    with pytest.raises(ek.ConfigError) as error:
        read_command_line([f"--{name}=16"])
    assert str(error.value) == f"unknown flag --{expected}"
    with pytest.raises(ek.ConfigError) as error:
        ek.ExperimentConfig(mode="validate", **{name: 16})
    assert f"unknown field {name!r}. It was removed. {REMOVED[name].instead}" in str(error.value)
