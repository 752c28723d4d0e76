"""config: what is said of fields that are wrong or do not go together, word for word."""

from __future__ import annotations

import pydantic
import pytest

from estimator_kit.config.areas import AREAS
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.exports import better, metric_of
from estimator_kit.config.areas.program import Program
from estimator_kit.config.areas.run import ModelChoice
from estimator_kit.config.areas.training import Training
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.flags import resolved_flags
from estimator_kit.config.modes import MODES
from estimator_kit.errors import ConfigError

pytestmark = pytest.mark.no_tensorflow

TRAINING = {
    "spec": "spec.yaml", "model_dir": "run", "train_files": ("a",), "eval_files": ("b",),
    "epochs": 1,
}  # fmt: skip


def problems_of(**changes):
    with pytest.raises(ConfigError) as error:
        ExperimentConfig(**{**TRAINING, **changes})
    return str(error.value).split("\n")


def missing(field, mode, unless=""):
    return f"--{field} is missing. --mode={mode} needs it{unless and f' unless you give {unless}'}."


BOTH = "train_and_evaluate"
ROWS = "--train_mix or --input_fn"
UNKNOWN = (
    "the kit does not know whether a better own/click is lower or higher. For your own metric, "
    "write min:own/click or max:own/click."
)
ENDLESS = (
    "--max_steps and --epochs are missing. Give at least one of them, so that training ends. Only "
    "--mode=train_and_evaluate with --train_files and --eval_files needs neither: it trains until "
    "--best_metric stops improving."
)
TWICE = "is listed twice. Remove one of them."


@pytest.mark.parametrize(
    "changes, problems",
    [
        # What a mode needs.
        ({"model_dir": None}, [missing("model_dir", BOTH)]),
        ({"model_dir": ""}, [missing("model_dir", BOTH)]),
        ({"train_files": ()}, [missing("train_files", BOTH, ROWS)]),
        ({"eval_files": ()}, [missing("eval_files", BOTH, "--input_fn")]),
        ({"epochs": None, "mode": "train", "eval_files": ()}, [ENDLESS]),
        (
            {"model_dir": None, "train_files": (), "eval_files": (), "epochs": None},
            [missing("model_dir", BOTH), missing("train_files", BOTH, ROWS),
             missing("eval_files", BOTH, "--input_fn"), ENDLESS],
        ),
        (
            {"mode": "train", "train_files": (), "eval_files": (), "epochs": None},
            [missing("train_files", "train", ROWS), ENDLESS],
        ),
        ({"mode": "evaluate", "eval_files": ()}, [missing("eval_files", "evaluate", "--input_fn")]),
        ({"mode": "export", "model_dir": None}, [missing("model_dir", "export")]),
        (
            {"mode": "predict", "model_dir": None},
            [missing("model_dir", "predict", "--export_dir or --predict_dir"),
             missing("predict_files", "predict")],
        ),
        (
            {"mode": "predict", "model_dir": None, "export_dir": "saved"},
            [missing("predict_files", "predict")],
        ),
        # What does not go together.
        (
            {"save_checkpoints_steps": 5, "save_checkpoints_secs": 5},
            ["--save_checkpoints_steps and --save_checkpoints_secs do not go together. Give one of "
             "them."],
        ),
        (
            {"input_cache_gib": 5, "input_cache_dir": "off"},
            ["--input_cache_gib limits a cache, but --input_cache_dir=off. Remove one."],
        ),
        (
            {"mode": "train", "eval_files": (), "eval_days": "2026-01-05"},
            ["--eval_files is missing. --eval_days chooses days from it."],
        ),
        (
            {"train_files": ("c", "a", "b"), "eval_files": ("b", "d", "c")},
            ["--train_files and --eval_files share b, c. Evaluate a model on files that it is not "
             "trained on."],
        ),
        ({"exporters": ("bst",)}, ["--exporters: unknown exporter 'bst'. Did you mean 'best'?"]),
        (
            {"exporters": ("latest", "every", "all")},
            ["--exporters: unknown exporter 'every'. Use one of: latest, best, best_k, step, "
             "final.",
             "--exporters: unknown exporter 'all'. Use one of: latest, best, best_k, step, final."],
        ),
        # Analysis: a first spec, or the files of one that is there.
        (
            {"mode": "analyze", "spec": "", "train_files": ()},
            [missing("train_files", "analyze"),
             "--analysis_dir is missing. --mode=analyze needs the folder for the first spec unless "
             "you give --spec.",
             "--labels is missing. --mode=analyze needs the features to learn, such as "
             "--labels=click,purchase, unless you give --spec."],
        ),
        (
            {"mode": "analyze", "spec": "", "analysis_dir": "a", "labels": ("x", "x", "")},
            [f"--labels: 'x' {TWICE}", "--labels: got an empty name. Remove it."],
        ),
        (
            {"mode": "analyze", "analysis_dir": "a", "labels": ("x",)},
            [f"--{flag} is for a first spec, but with --spec, --mode=analyze refreshes the files "
             "that this spec refers to. Remove one of the two flags."
             for flag in ("analysis_dir", "labels")],
        ),
        (
            {"mode": "analyze", "csv_delimiter": "||"},
            ["--csv_delimiter: got '||', expected one character, such as ; or \\t"],
        ),
        (
            {"mode": "validate", "baseline": "statistics.json", "csv_delimiter": "||"},
            ["--csv_delimiter: got '||', expected one character, such as ; or \\t"],
        ),
        # Fields, one by one.
        ({"mode": "trian"}, ["--mode: unknown mode 'trian'. Did you mean 'train'?"]),
        ({"batch_size": 0}, ["--batch_size: expected at least 1, got 0."]),
        (
            {"serving_batch_rows": 2**63, "validate_rows": 10**30},
            ["--validate_rows: expected at most 9223372036854775807, got "
             "1000000000000000000000000000000.",
             "--serving_batch_rows: expected at most 9223372036854775807, got "
             "9223372036854775808."],
        ),
        (
            {"threads": 1025, "mirrored_devices": 2**31},
            ["--threads: expected at most 1024, got 1025.",
             "--mirrored_devices: expected at most 1024, got 2147483648."],
        ),
        (
            {"spec": "a\0b", "train_files": ("a", "b\udcff")},
            ["--spec: expected text in UTF-8 without a NUL character, got 'a\\x00b'.",
             "--train_files: expected text in UTF-8 without a NUL character, got "
             "('a', 'b\\udcff')."],
        ),
        (
            {"max_steps": -5, "epochs": 0},
            ["--max_steps: expected at least 1, got -5.",
             "--epochs: expected at least 1, got 0."],
        ),
        (
            {"eval_name": "a/b"},
            ["--eval_name: expected letters, digits, _, - and ., because files get this name, got "
             "'a/b'."],
        ),
        (
            {"eval_throttle_secs": -1},
            ["--eval_throttle_secs: expected at least 0, got -1."],
        ),
        ({"log_every_secs": 0}, ["--log_every_secs: expected more than 0.0, got 0."]),
        (
            {"log_every_secs": float("inf")},
            ["--log_every_secs: expected a finite number, got inf."],
        ),
        ({"eval_files": ("a", 1)}, ["--eval_files: expected a string, got 1."]),
        ({"model_params": []}, ["--model_params: expected a mapping, got []."]),
        ({"batchsize": 5}, ["unknown field 'batchsize'. Did you mean 'batch_size'?"]),
        pytest.param(
            {"mode": "xyz"}, [f"--mode: unknown mode 'xyz'. Use one of: {', '.join(MODES)}."],
        ),
        pytest.param(
            {"train_files": 5}, ["--train_files: expected a list of strings, got 5."],
        ),
        pytest.param({"spec": ""}, [missing("spec", BOTH)]),
        pytest.param(
            {"train_files": ("a", "")}, ["--train_files: got an empty name. Remove it."],
        ),
        pytest.param(
            {"exporters": ("step",)},
            ["--exporters: expected step:1000, got 'step'."],
        ),
        pytest.param(
            {"exporters": ("best_k:0", "final:3")},
            ["--exporters: expected best_k or best_k:3, got 'best_k:0'.",
             "--exporters: expected final, got 'final:3'."],
        ),
        pytest.param(
            {"exporters": (), "slices": ("city",), "importance": True,
             "reference_models": ("constant",)},
            ["--slices asks an export. Add final to --exporters.",
             "--importance asks an export. Add final to --exporters.",
             "--reference_models asks an export. Add final to --exporters."],
        ),
        pytest.param(
            {"reference_models": ("constant", "boosted_tree", "constant")},
            ["--reference_models: unknown reference model 'boosted_tree'. Did you mean "
             "'boosted_trees'?",
             "--reference_models: 'constant' is listed twice. Remove one of them."],
        ),
        pytest.param(
            {"exporters": ("best_k",), "best_metric": "own/click"},
            [f"--best_metric: {UNKNOWN}"],
        ),
        pytest.param(
            {"exporters": ("best", "best")}, [f"--exporters: 'best' {TWICE}"],
        ),
        pytest.param(
            {"early_stopping_metric": "own/click"}, [f"--early_stopping_metric: {UNKNOWN}"],
        ),
        (
            {"warm_start_rename": ("a", "(=b", "a=", "(a|b)=c")},
            ["--warm_start_rename: expected old=new, got 'a'.",
             "--warm_start_rename: '(' is not a regular expression: "
             "missing ), unterminated subpattern at position 0",
             "--warm_start_rename: expected old=new, got 'a='."],
        ),
        (
            {"warm_start_vars": "("},
            ["--warm_start_vars: '(' is not a regular expression: "
             "missing ), unterminated subpattern at position 0"],
        ),
        pytest.param(
            {"batch_size": True}, ["--batch_size: expected an integer, got True."],
        ),
    ],
)  # fmt: skip
def test_what_a_broken_config_is_told(changes, problems):
    assert problems_of(**changes) == problems


class Mine:
    """Stands for a ModelFn: that it is one is checked where the model is made."""

    class Inner:
        pass


def test_a_model_may_be_given_as_a_class():
    config = ExperimentConfig(**TRAINING, model=Mine)
    assert config.model == f"{__name__}:Mine"
    assert f"--model={__name__}:Mine\n" in resolved_flags(config)


def test_a_model_that_no_name_finds_again_is_refused():
    class Local:
        pass

    for model in (Mine.Inner, Local):
        assert problems_of(model=model) == [
            "--model: expected a class at the top level of a module, not inside a function or "
            f"another class, got {model!r}."
        ]
    assert problems_of(model=print) == [
        "--model: expected the name of a model, such as 'wide_deep' or "
        f"'package.module:ClassName', or a subclass of estimator_kit.ModelFn, got {print!r}."
    ]


def test_one_string_is_a_list_of_one():
    config = ExperimentConfig(**{**TRAINING, "train_files": "a,b.tfrecord", "exporters": "final"})
    assert config.train_files == ("a,b.tfrecord",)
    assert config.exporters == ("final",)
    assert problems_of(train_files="") == ["--train_files: got an empty name. Remove it."]


def test_a_config_needs_a_spec():
    with pytest.raises(ConfigError) as error:
        ExperimentConfig()
    assert str(error.value).split("\n")[0] == missing("spec", BOTH)


@pytest.mark.parametrize(
    "fields",
    [
        TRAINING,
        {**TRAINING, "epochs": None, "max_steps": 10},
        {**TRAINING, "max_steps": 10},
        {**TRAINING, "mode": "train", "eval_files": ()},
        {"mode": "evaluate", "spec": "s", "model_dir": "m", "eval_files": ("e",)},
        # Evaluating a model on its training files is allowed in --mode=evaluate.
        {**TRAINING, "mode": "evaluate", "train_files": ("b",)},
        {"mode": "predict", "spec": "s", "model_dir": "m", "predict_files": ("p",)},
        {"mode": "predict", "export_dir": "e", "predict_files": ("p",)},
        {"mode": "evaluate", "export_dir": "e", "eval_files": ("p",)},
        {"mode": "predict", "export_dir": "e", "predict_files": ("p",), "predict_dir": "d"},
        {"mode": "export", "spec": "s", "model_dir": "m"},
        {"mode": "validate", "spec": "s"},
        {"mode": "analyze", "train_files": ("t",), "labels": ("x",), "analysis_dir": "a"},
        {"mode": "analyze", "train_files": ("t",), "spec": "s"},
        {"mode": "convert", "convert_files": ("t",), "convert_dir": "d"},
        {
            "mode": "convert",
            "convert_files": ("t",),
            "convert_dir": "d",
            "spec": "s",
            "split": "key:u",
            "split_eval": "0.1",
        },
        {**TRAINING, "save_checkpoints_secs": 5},
        {**TRAINING, "exporters": ()},
    ],
)
def test_what_is_enough(fields):
    config = ExperimentConfig(**fields)
    assert {name: getattr(config, name) for name in fields} == fields


def test_defaults():
    config = ExperimentConfig(mode="validate", spec="s")
    assert config.model_dump(exclude={"mode", "spec"}) == {
        "model": "wide_deep", "model_params": {}, "model_dir": None,
        "report": "on", "slices": (), "importance": False, "reference_models": (),
        "compare": (),
        "search": None, "test_files": (),
        "generate_default_data": None, "train_files": (), "eval_files": (), "predict_files": (),
        "train_days": None, "eval_days": None, "train_mix": (), "input_fn": None,
        "input_version": None,
        "keep_negatives": None, "deterministic": False,
        "batch_size": 512, "eval_batch_size": 2048, "shuffle": True, "seed": 1,
        "input_cache_dir": None, "input_cache_gib": None,
        "corrupt_data_policy": "fail", "max_bad": None,
        "max_steps": None, "epochs": None, "save_checkpoints_steps": None,
        "save_checkpoints_secs": None, "keep_checkpoint_max": 5, "warm_start_from": None,
        "warm_start_mode": "weights_and_stats", "warm_start_vars": ".*", "warm_start_rename": (),
        "eval_steps": None, "eval_throttle_secs": 0, "eval_name": "evaluate",
        "early_stopping_metric": None,
        "early_stopping_patience": 3, "early_stopping_min_delta": 0.0,
        "exporters": ("best", "final"), "best_metric": "loss",
        "exports_to_keep": 5,

        "default_signature": "predict_examples", "predict_output": None,
        "predict_limit": None, "predict_outputs": (), "top_k": None, "export_dir": None,
        "predict_dir": None,
        "keep_columns": (),
        "graph_dir": None, "transform": None,
        "transform_dir": None, "transform_tolerance": None, "transform_max_loss_increase": 0.01,
        "transform_inputs": "features",
        "index_recall": 0.95,
        "analysis_dir": None, "labels": (), "min_count": 5,
        "categorical": (), "numeric": (), "ignore": (),
        "csv_columns": (), "csv_delimiter": None, "csv_skip_spaces": None,
        "csv_comment": None, "csv_missing": (), "csv_list_separator": None,
        "csv_thousands": None,
        "convert_files": (), "convert_dir": None, "convert_order": "stable",
        "sequence_by": None, "order_by": None, "sequence_columns": (), "sequence_steps": None,
        "targets": "next",
        "derive_labels": (),
        "beam_options": None,
        "data_service": None, "data_service_port": 0, "data_service_host": None,
        "data_service_dir": None,
        "profile": None, "mixed_precision": None, "xla": "off",
        "summary_steps": 100, "histograms": False,
        "serving_models": (), "serving_versions": (), "serving_labels": (),
        "serving_host": "127.0.0.1", "serving_grpc_port": 8500, "serving_rest_port": 8501,
        "serving_config_dir": None, "serving_batch_rows": 128,
        "serving_log_dir": None, "serving_log_rate": 1.0, "serving_log_secs": 60,
        "serving_log_mib": 64, "serving_log_keep_mib": 10240,
        "shard_mib": 100, "shard_compression": "none",
        "split": None, "split_eval": None, "split_test": None, "step_columns": (),
        "schema_file": None, "validate_rows": 0, "baseline": (),
        "log_every_secs": 10.0, "log_format": "text", "threads": 0, "processes": None,
        "strategy": None, "job_name": None, "task_index": 0,
        "worker_hosts": (), "ps_hosts": (), "launch_local": None, "cluster_timeout_secs": 600.0,
        "listen_on_all_interfaces": False, "backup_workers": 0, "mirrored_devices": None,
        "partition_mib": None,
        "period": "1d", "as_of": None, "window": None, "eval_window": None, "window_min": (),
        "window_max_age": None, "serving_dir": None, "promote_as": None, "watch": False,
        "force": False,
        "keep_cycles": 7, "keep_versions": 3, "stage_limits": (),
        "webhook_url_file": None, "tracking": None,
        "request_logs": (), "label_files": (), "request_time": None, "request_model": None,
        "monitor_until": None, "rollback": False,
        "prometheus_file": None,
        "exit_code_style": "kit", "copies_dir": None, "copies_gib": None, "to": None, "cycle": None,
    }  # fmt: skip


def test_a_config_is_frozen():
    config = ExperimentConfig(**TRAINING)
    with pytest.raises(pydantic.ValidationError, match="Instance is frozen"):
        config.batch_size = 1


def test_configs_share_no_parameters():
    ExperimentConfig(**TRAINING).model_params["a"] = 1
    assert ExperimentConfig(**TRAINING).model_params == {}


@pytest.mark.parametrize("field", ["batch_size", "eval_batch_size", "max_steps", "seed"])
def test_numbers_beyond_int64_are_refused(field):
    ExperimentConfig(mode="validate", spec="x.yaml", **{field: 2**63 - 1})
    with pytest.raises(ConfigError) as error:
        ExperimentConfig(mode="validate", spec="x.yaml", **{field: 2**63})
    assert str(error.value) == (
        f"--{field}: expected at most 9223372036854775807, got 9223372036854775808."
    )


def test_a_seed_may_be_negative():
    assert ExperimentConfig(mode="validate", spec="x.yaml", seed=-(2**63)).seed == -(2**63)
    with pytest.raises(
        ConfigError,
        match="--seed: expected at least -9223372036854775808, got -9223372036854775809",
    ):
        ExperimentConfig(mode="validate", spec="x.yaml", seed=-(2**63) - 1)


# --- Areas ----------------------------------------------------------------------------------------


def test_settings_may_be_written_as_areas():
    training = Training(epochs=2, batch_size=7)
    flat = {name: value for name, value in TRAINING.items() if name != "epochs"}
    assert ExperimentConfig(training, **flat) == ExperimentConfig(**flat, epochs=2, batch_size=7)
    # What an area has at its default is not said.
    assert ExperimentConfig(Training(), Program(), **TRAINING) == ExperimentConfig(**TRAINING)


def test_a_setting_that_is_given_flat_and_in_an_area():
    with pytest.raises(ConfigError) as error:
        ExperimentConfig(Training(epochs=2), **TRAINING)
    assert str(error.value) == (
        "epochs: the setting is given twice, in Training and by name. Remove one of them."
    )
    with pytest.raises(ConfigError) as error:
        ExperimentConfig(ModelChoice(seed=2), ModelChoice(seed=2), **TRAINING)
    assert str(error.value) == (
        "seed: the setting is given twice, in ModelChoice and in ModelChoice. Remove one of them."
    )


def test_every_setting_is_in_one_area_and_has_a_default_and_a_help_text():
    names = [name for area in AREAS for name in area.model_fields]
    assert len(names) == len(set(names))
    assert set(names) == set(ExperimentConfig.model_fields)
    assert all(area.heading for area in AREAS)
    assert not [n for n, f in ExperimentConfig.model_fields.items() if f.is_required()]


def test_what_is_no_area():
    with pytest.raises(ConfigError) as error:
        ExperimentConfig("evaluate", **TRAINING)
    assert str(error.value) == (
        "ExperimentConfig: expected settings by name, such as mode='evaluate', or an area of "
        "estimator_kit.config.areas, got 'evaluate'."
    )


def test_an_area_takes_what_the_config_takes():
    flat = {name: value for name, value in TRAINING.items() if name != "train_files"}
    assert ExperimentConfig(Data(train_files="a"), **flat) == ExperimentConfig(**TRAINING)


@pytest.mark.parametrize(
    ("given", "records", "share"),
    [(10, 10, None), ("0", 0, None), (0.01, None, 0.01), ("1%", None, 0.01), ("0%", None, 0.0),
     (1e-05, None, 1e-05)],
)  # fmt: skip
def test_a_limit_of_bad_data_is_records_or_a_share(given, records, share):
    config = ExperimentConfig(
        mode="validate", spec="s", corrupt_data_policy="skip_record", max_bad=given
    )
    assert (config.max_bad_records, config.max_bad_share) == (records, share)


@pytest.mark.parametrize("given", ["many", "-1", "1.0", "100%", True, "1 %"])
def test_a_wrong_limit_of_bad_data(given):
    with pytest.raises(ConfigError) as error:
        ExperimentConfig(mode="validate", spec="s", max_bad=given)
    assert str(error.value) == (
        "--max_bad: expected a number of records, such as 10, or a share below 1, such as 0.01 or "
        f"1%, got {given!r}."
    )


@pytest.mark.parametrize(
    ("watched", "direction"),
    [
        ("loss", "min"), ("log_loss/click", "min"), ("auc/click", "max"), ("mrr/next", "max"),
        ("ndcg_at_10/next", "max"), ("top_5_accuracy/topic", "max"),
        ("recall_at_precision_0.9/click", "max"), ("recall_at_precision_1e-05/c", "max"),
        ("calibration/click", None),
        ("label_mean/click", None), ("own/click", None), ("max:own/click", "max"),
        ("min:auc/click", "min"),
    ],
)  # fmt: skip
def test_the_kit_knows_which_way_its_metrics_improve(watched, direction):
    config = ExperimentConfig(mode="validate", spec="s", best_metric=watched, exporters=())
    assert config.best_direction == better(watched) == direction
    assert metric_of(watched) == (watched.partition(":")[2] or watched)
