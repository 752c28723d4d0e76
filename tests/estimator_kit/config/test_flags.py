"""flags: the command line and ExperimentConfig say the same, both ways, and need no TensorFlow."""

from __future__ import annotations

import math
import pathlib
import re
import subprocess
import sys
import textwrap

import hypothesis
import pytest
from absl import flags
from hypothesis import strategies as st

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.flagfile import check_flagfiles
from estimator_kit.config.flags import config_from_flags, define_flags, resolved_flags
from estimator_kit.config.modes import MODES
from estimator_kit.errors import ConfigError

pytestmark = pytest.mark.no_tensorflow

FIELDS = ExperimentConfig.model_fields
ROOT = pathlib.Path(__file__).parents[3]


def config_of(*arguments):
    """The config that a command line describes."""
    values = flags.FlagValues()
    define_flags(values)
    assert values(["run.py", *arguments])[1:] == []
    return config_from_flags(values)


def validating(*arguments):
    return config_of("--mode=validate", "--spec=s", *arguments)


def test_an_empty_value_removes_a_setting_without_a_default():
    given = ("--train_files=a", "--train_days=2026-01-01", "--generate_default_data=d")
    empty = ("--train_files=", "--train_days=", "--generate_default_data=")
    assert validating(*given, *empty) == validating()


WITHOUT_A_DEFAULT = [name for name, field in FIELDS.items() if field.default is None]


@pytest.mark.parametrize("name", sorted({*WITHOUT_A_DEFAULT} - {"spec"}))
def test_an_empty_value_of_each_setting_is_no_value(name):
    assert validating(f"--{name}=") == validating()


# --- Flags and fields -----------------------------------------------------------------------------


@pytest.fixture
def kit_flags():
    values = flags.FlagValues()
    define_flags(values)
    return values


def test_every_field_has_a_flag_and_every_flag_a_field(kit_flags):
    assert sorted(kit_flags) == sorted(FIELDS)


@pytest.mark.parametrize("name", sorted(set(FIELDS) - {"spec"}))
def test_the_default_of_a_flag_is_that_of_the_field(kit_flags, name):
    default = kit_flags[name].default
    if name == "model_params":
        assert (default, FIELDS[name].default) == ([], {})
    else:
        assert (tuple(default) if isinstance(default, list) else default) == FIELDS[name].default


def test_no_flags_at_all_give_the_defaults():
    assert validating() == ExperimentConfig(mode="validate", spec="s")


def test_every_flag_is_documented(kit_flags):
    helps = {name: kit_flags[name].help for name in kit_flags}
    assert [name for name, text in helps.items() if len(text) < 20 or "." not in text] == []


def test_flags_of_every_type():
    config = config_of(
        "--spec=a.yaml", "--model_dir=run", "--train_files=a/*,b", "--eval_files=c",
        "--batch_size=7", "--noshuffle", "--max_steps=10", "--log_every_secs=0.5",
        "--exporters=final", "--model=pkg.mod:Model",
    )  # fmt: skip
    assert config == ExperimentConfig(
        spec="a.yaml", model_dir="run", train_files=("a/*", "b"), eval_files=("c",), batch_size=7,
        shuffle=False, max_steps=10, log_every_secs=0.5, exporters=("final",),
        model="pkg.mod:Model",
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "--spec is missing. --mode=train_and_evaluate needs it."),
        (["--spec=s"], "--model_dir is missing. --mode=train_and_evaluate needs it."),
        (
            ["--spec=s", "--mode=validate", "--batch_size=0"],
            "--batch_size: expected at least 1, got 0.",
        ),
    ],
)
def test_a_config_that_is_wrong_is_told_by_its_flags(arguments, message):
    with pytest.raises(ConfigError) as error:
        config_of(*arguments)
    assert str(error.value).split("\n")[0] == message


# --- Order ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, batch_size, seed",
    [
        (["--flagfile={}"], 10, 20),
        (["--flagfile={}", "--batch_size=11"], 11, 20),
        (["--batch_size=11", "--seed=21", "--flagfile={}"], 10, 20),
        (["--batch_size=11", "--flagfile={}", "--seed=21"], 10, 21),
        (["--flagfile", "{}", "--seed", "21"], 10, 21),
        (["--batch_size=11", "--batch_size=12"], 12, 1),
    ],
)
def test_the_later_of_two_values_counts(tmp_path, arguments, batch_size, seed):
    file = tmp_path / "x.flags"
    file.write_text("# an experiment\n\n--batch_size=10\n--seed=20\n")
    config = validating(*(argument.format(file) for argument in arguments))
    assert (config.batch_size, config.seed) == (batch_size, seed)


# --- Parameters of the model ----------------------------------------------------------------------


def params(*entries):
    return validating(*(f"--model_params={entry}" for entry in entries)).model_params


@pytest.mark.parametrize(
    "entries, expected",
    [
        ([], {}),
        (["units=[128, 64]"], {"units": [128, 64]}),
        (["rate=1e-3", "steps=010", "clip=.inf"], {"rate": 0.001, "steps": 10, "clip": math.inf}),
        (["a=true", "b=no", "c=null", "d=", "e='1'"],
         {"a": True, "b": "no", "c": None, "d": None, "e": "1"}),
        (["by_group={wide: ftrl, deep: [adam]}"], {"by_group": {"wide": "ftrl", "deep": ["adam"]}}),
        (["note=a=b", " name = relu"], {"note": "a=b", "name": "relu"}),
        # The later of two counts, and an empty one drops what was before it.
        (["a=1", "b=2", "a=3"], {"a": 3, "b": 2}),
        (["a=1", "", "b=2"], {"b": 2}),
        (["a=1", ""], {}),
    ],
)  # fmt: skip
def test_parameters_are_yaml(entries, expected):
    assert params(*entries) == expected


def test_parameters_of_a_flagfile_are_added_to_and_dropped(tmp_path):
    file = tmp_path / "x.flags"
    file.write_text("--model_params=a=1\n--model_params=b=2\n")
    assert validating(f"--flagfile={file}", "--model_params=b=3").model_params == {"a": 1, "b": 3}
    cleared = validating(f"--flagfile={file}", "--model_params=", "--model_params=c=3")
    assert cleared.model_params == {"c": 3}


@pytest.mark.parametrize(
    "entry, message",
    [
        ("rate", "--model_params: expected name=value, got 'rate'."),
        ("=1", "--model_params: expected name=value, got '=1'."),
        (" =1", "--model_params: expected name=value, got ' =1'."),
        (" ", "--model_params: expected name=value, got ' '."),
        (
            "a=[1",
            "--model_params: the value of 'a=[1': the top level: not YAML: while parsing a flow "
            "sequence, expected ',' or ']', but got '<stream end>'",
        ),
        (
            "a=b: c: d",
            "--model_params: the value of 'a=b: c: d': the top level: not YAML: mapping values "
            "are not allowed here",
        ),
        pytest.param(
            "a={x: 1, x: 2}",
            "--model_params: the value of 'a={x: 1, x: 2}': x: the key is listed twice, first on "
            "line 1. Keep one.",
        ),
        pytest.param(
            "a={1: x}",
            "--model_params: the value of 'a={1: x}': the top level: the key must be a string, "
            "got 1. Put it in quotes.",
        ),
    ],
)
def test_parameters_that_cannot_be_read(entry, message):
    with pytest.raises(ConfigError) as error:
        params(entry)
    assert str(error.value) == message


# --- The flags of a run, written down -------------------------------------------------------------


def test_resolved_flags_are_a_sorted_flagfile():
    config = ExperimentConfig(
        mode="train", spec="a.yaml", model_dir="run", train_files=("a", "b"), max_steps=5,
        shuffle=False, exporters=("final",), log_every_secs=2.5, warm_start_vars=".*/weights$",
        model_params={"units": [8, 4], "rate": 0.1, "activation": "relu", "bias": True},
    )  # fmt: skip
    assert resolved_flags(config) == textwrap.dedent("""\
        --backup_workers=0
        --batch_size=512
        --best_metric=loss
        --cluster_timeout_secs=600.0
        --convert_order=stable
        --corrupt_data_policy=fail
        --data_service_port=0
        --default_signature=predict_examples
        --nodeterministic
        --early_stopping_min_delta=0.0
        --early_stopping_patience=3
        --eval_batch_size=2048
        --eval_name=evaluate
        --eval_throttle_secs=0
        --exit_code_style=kit
        --exporters=final
        --exports_to_keep=5
        --noforce
        --nohistograms
        --noimportance
        --index_recall=0.95
        --keep_checkpoint_max=5
        --keep_cycles=7
        --keep_versions=3
        --nolisten_on_all_interfaces
        --log_every_secs=2.5
        --log_format=text
        --max_steps=5
        --min_count=5
        --mode=train
        --model=wide_deep
        --model_dir=run
        --model_params=activation="relu"
        --model_params=bias=true
        --model_params=rate=0.1
        --model_params=units=[8, 4]
        --period=1d
        --report=on
        --norollback
        --seed=1
        --serving_batch_rows=128
        --serving_grpc_port=8500
        --serving_host=127.0.0.1
        --serving_log_keep_mib=10240
        --serving_log_mib=64
        --serving_log_rate=1.0
        --serving_log_secs=60
        --serving_rest_port=8501
        --shard_compression=none
        --shard_mib=100
        --noshuffle
        --spec=a.yaml
        --summary_steps=100
        --targets=next
        --task_index=0
        --threads=0
        --train_files=a,b
        --transform_inputs=features
        --transform_max_loss_increase=0.01
        --validate_rows=0
        --warm_start_mode=weights_and_stats
        --warm_start_vars=.*/weights$
        --nowatch
        --xla=off
        """)


def read_again(config, folder):
    """The config that the resolved flags of a config make."""
    file = folder / "flags.txt"
    file.write_text(resolved_flags(config), encoding="utf-8")
    check_flagfiles([f"--flagfile={file}"])
    return config_of(f"--flagfile={file}")


# What paths, globs and regular expressions are made of; the tests below have what breaks.
texts = st.text("abAB019/._-*[]{}?^$()|:=@+%é日#", min_size=1, max_size=12).filter(
    lambda text: "$" not in text[:-1]
)
# TensorFlow would read wildcards in the path of a checkpoint.
folders = texts.filter(lambda text: not set(text) & set("*?[\\"))
lists = st.lists(texts, max_size=3).map(tuple)
counts = st.none() | st.integers(1, 10**9)
words = st.text(
    st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"], exclude_characters="#/$"),
    max_size=8,
)
yaml_values = st.recursive(
    st.none() | st.booleans() | st.integers() | words
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(words.filter(lambda key: key != "<<"), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
configs = st.fixed_dictionaries(
    {"spec": texts, "model_dir": folders, "epochs": st.integers(1, 99)},
    optional={
        "mode": st.sampled_from(["train", "export", "validate"]),
        "train_files": lists.map(lambda files: ("t", *files)),
        "predict_files": lists,
        "eval_files": lists.map(lambda files: tuple(f"eval/{file}" for file in files)),
        "model": texts,
        "model_params": st.dictionaries(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), yaml_values),
        "generate_default_data": st.none() | texts,
        "batch_size": st.integers(1, 10**6),
        "shuffle": st.booleans(),
        "seed": st.integers(-(2**31), 2**31),
        "max_steps": counts,
        "save_checkpoints_steps": counts,
        "warm_start_from": st.none() | folders,
        "warm_start_vars": texts.map(re.escape),
        "eval_steps": counts,
        "eval_name": st.sampled_from(["evaluate", "test-2.b"]),
        "eval_throttle_secs": st.integers(0, 1000),
        "warm_start_mode": st.sampled_from(["weights", "weights_and_stats", "all_but_step", "all"]),
        "warm_start_rename": st.lists(texts.map(lambda name: f"{re.escape(name)}=a,b")).map(tuple),
        "early_stopping_metric": st.none() | texts.map(lambda name: f"loss/{name}"),
        "exporters": st.sampled_from([("latest", "best"), ("final",), ("best", "final", "latest")]),
        "best_metric": texts.map(lambda name: f"loss/{name}"),
        "predict_output": st.none() | texts,
        "predict_limit": counts,
        "predict_outputs": lists,
        "top_k": counts,
        "export_dir": st.none() | texts,
        "log_every_secs": st.floats(0, exclude_min=True, allow_infinity=False),
        "log_format": st.sampled_from(["text", "json"]),
        "threads": st.integers(0, 64),
    },
)


@hypothesis.settings(max_examples=80, deadline=None, derandomize=True)
@hypothesis.given(fields=configs)
def test_resolved_flags_make_the_same_config_again(tmp_path_factory, fields):
    fields = {"mode": "validate", **fields}
    if fields["mode"] == "train":
        fields = {"train_files": ("t",), **fields}
    config = ExperimentConfig(**fields)
    assert read_again(config, tmp_path_factory.getbasetemp()) == config


def test_resolved_flags_of_every_mode(tmp_path):
    for mode in MODES:
        schema = {"schema_file": "s"} if mode == "schema" else {}
        schema |= {"convert_files": ("a", "b"), "convert_dir": "c"} if mode == "convert" else {}
        schema |= {"search": "s.yaml"} if mode == "tune" else {}
        if mode == "transform":
            schema |= {"export_dir": "e", "transform": "text", "transform_dir": "d"}
        schema |= {"data_service": "grpc://h:1"} if mode == "data_service" else {}
        schema |= {"serving_models": ("a=b",), "serving_config_dir": "d"} if "serv" in mode else {}
        schema |= {"to": 3} if mode in ("rollback", "promote") else {}
        schema |= {"request_logs": ("l", "k")} if mode == "monitor" else {}
        days = ("dt=*/t",) if mode == "retrain" else ("t",)
        schema |= {"window": "5d"} if mode == "retrain" else {}
        config = ExperimentConfig(
            mode=mode, spec="s", model_dir="m", epochs=1, train_files=days,
            eval_files=() if mode == "retrain" else ("e",), predict_files=("p",), **schema,
        )  # fmt: skip
        assert read_again(config, tmp_path) == config


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"exporters": ()}),
        pytest.param({"train_files": ("a,b", "c")}),
        pytest.param(
            {"train_files": ("a,b",)},
        ),
        pytest.param({"model_params": {"a": "x # y"}}),
        pytest.param({"model_params": {"a": "x // y"}}),
        pytest.param({"model_params": {"a": "$HOME"}}),
        pytest.param({"model_params": {"a": "😀"}}),
    ],
    ids=repr,
)
def test_resolved_flags_of_odd_values(tmp_path, fields):
    config = ExperimentConfig(**{"mode": "validate", "spec": "s", **fields})
    assert read_again(config, tmp_path) == config


# --- Without TensorFlow ---------------------------------------------------------------------------

SCRIPT = """
import importlib, sys
for name in (
    "feature_specs", "estimator_kit", "estimator_kit.config.experiment_config",
    "estimator_kit.errors",
    "estimator_kit.exit_codes", "estimator_kit.config.flagfile", "estimator_kit.config.flags",
    "estimator_kit.main", "feature_specs.kinds.vocabulary",
):
    importlib.import_module(name)
    assert "tensorflow" not in sys.modules, name
from estimator_kit.main import main
assert main(["run.py", "--help"]) == 0
assert "tensorflow" not in sys.modules, "--help"
assert main(["run.py", "--mode=validate", "--spec=feature_specs/catalog/ads.yaml"]) == 0
assert main(["run.py", "--mode=validate", "--spec=nope.yaml"]) == 2
assert "tensorflow" not in sys.modules, "--mode=validate"
"""


def test_checking_flags_and_specs_imports_no_tensorflow():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "feature_specs/catalog/ads.yaml: the spec and the flags are correct" in done.stdout
    assert done.stderr == (
        "error: nope.yaml: 1 problem in the feature spec\n"
        "  nope.yaml: the top level: cannot be read: No such file or directory\n"
    )
