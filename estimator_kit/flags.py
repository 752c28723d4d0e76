"""The command line: absl flags, each documented here, and the ExperimentConfig they make.

The only module that knows absl flags. A flagfile holds one `--flag=value` a line; flags after
`--flagfile` override it. Imports no TensorFlow.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from absl import flags

from estimator_kit.config import (
    CORRUPT_DATA_POLICIES,
    EXPORTERS,
    MODES,
    WARM_START_MODES,
    ExperimentConfig,
)
from estimator_kit.errors import ConfigError
from feature_specs.errors import SpecError, path_text
from feature_specs.yaml_reader import read_text

_DEFAULTS = {name: field.default for name, field in ExperimentConfig.model_fields.items()}


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the kit's flags; their defaults are those of `ExperimentConfig`."""
    here: dict[str, Any] = {"flag_values": values, "module_name": "estimator_kit"}

    def text(name: str, help_text: str) -> None:
        default = _DEFAULTS[name] if isinstance(_DEFAULTS[name], str) else None
        flags.DEFINE_string(name, default, help_text, **here)

    def integer(name: str, help_text: str) -> None:
        flags.DEFINE_integer(name, _DEFAULTS[name], help_text, **here)

    def choice(name: str, choices: Sequence[str], help_text: str) -> None:
        flags.DEFINE_enum(name, _DEFAULTS[name], choices, help_text, **here)

    def listing(name: str, help_text: str) -> None:
        flags.DEFINE_list(name, list(_DEFAULTS[name]), help_text, **here)

    choice(
        "mode", MODES,
        "What to do. train_and_evaluate: train, evaluate at every checkpoint, export. train: train "
        "alone. evaluate: score the latest checkpoint on --eval_files. predict: score "
        "--predict_files. export: write a SavedModel of the latest checkpoint. validate: check "
        "flags and spec, without TensorFlow, in a fraction of a second. analyze: write a first "
        "spec for --train_files (TFRecord, Parquet, CSV or JSON lines, by their names), or refresh "
        "the files that a --spec refers to. convert: write --convert_files (Parquet, CSV or JSON "
        "lines) as sharded TFRecords, without TensorFlow. import_schema: write a first spec for "
        "the TensorFlow Metadata Schema in --schema_file. export_schema: write --spec as such a "
        "Schema. check_data: read all records of --train_files, --eval_files and --predict_files "
        "and list what is bad, also by --spec where it is given; with a --model_dir, result.json "
        "is written there. data_service_dispatcher, data_service_worker: run a server of a tf.data "
        "service until SIGTERM or Ctrl-C; see --data_service.",
    )  # fmt: skip
    text("spec", "The feature spec, a YAML or JSON file. feature_specs/catalog holds examples.")
    text(
        "model",
        "linear, dnn, wide_deep, fm, deepfm, dcn, xdeepfm, autoint (features crossed); din, gru, "
        "lstm, transformer (sequences); shared_bottom, mmoe, cgc, ple (several objectives); esmm, "
        "aitm (objectives that are steps one after the other); two_tower (retrieval); or a ModelFn "
        "of your own as package.module:ClassName.",
    )
    flags.DEFINE_multi_string(
        "model_params", [],
        "A parameter of the model as name=value, the value in YAML: "
        "--model_params=hidden_units=[128,64] --model_params=learning_rate=0.02. May be repeated; "
        "the later of two for one name counts, and an empty one (--model_params=) drops those "
        "before it. An unknown name is an error that lists those there are.", **here,
    )  # fmt: skip
    text(
        "model_dir",
        "The run's folder: checkpoints, exports, events for TensorBoard, result.json. Started "
        "again with the same one, training goes on from the last checkpoint.",
    )
    text(
        "generate_default_data",
        "A folder for the embedded default data, a synthetic advertising log (200,000 rows in 8 "
        "days); it is generated there first when it is not there yet.",
    )
    listing(
        "train_files",
        "TFRecord files to train on: paths or globs, separated by commas. With --mode=analyze they "
        "may be of another kind, see there.",
    )
    listing("eval_files", "TFRecord files to evaluate on, all of them at each evaluation.")
    listing("predict_files", "TFRecord files to predict; labels need not be in them.")
    text(
        "train_days",
        "Days to train on: 2026-01-01..2026-01-07, 7d..2026-01-07 (the seven that end with it) or "
        "2026-01-07. Each takes the place of dt=* in --train_files (data/dt=*/*.tfrecord). A day "
        "without a file is an error.",
    )
    text("eval_days", "The same for --eval_files, as in --eval_days=2026-01-08.")
    listing(
        "train_mix",
        "In the place of --train_files: several patterns and the share of each, as in "
        "a/*.tfrecord=3,b/*.tfrecord=1: of four rows three are of a, in every batch, however many "
        "rows there are of either. A part that ends begins again; an epoch is as many rows as all "
        "parts have together.",
    )
    text(
        "keep_negatives",
        "Train on this share of the rows whose label is 0, as 0.1, or click=0.1 where several "
        "objectives are binary; another part of them in each epoch, the same at each reading. "
        "Those kept weigh 1 / share, in the losses of all objectives, so predictions stay "
        "calibrated. Evaluation reads all rows.",
    )
    integer("batch_size", "Rows a training step.")
    integer("eval_batch_size", "Rows a step of evaluation and prediction.")
    flags.DEFINE_bool("shuffle", _DEFAULTS["shuffle"], "Shuffle the training rows.", **here)
    integer("seed", "Decides the order of rows and the initial variables.")
    flags.DEFINE_bool(
        "deterministic", _DEFAULTS["deterministic"],
        "Two trainings from one start give the same checkpoint, bit for bit, on the same machine, "
        "TensorFlow and number of threads: TensorFlow then adds up in a fixed order, which costs "
        "speed, and fails at an op that has none. Without it the rows are the same, and sums "
        "differ in their last bits.", **here,
    )  # fmt: skip
    text(
        "input_cache_dir",
        "Keep transformed rows in this folder, on a local disk, for later epochs and later runs: "
        "training and evaluation read them instead of parsing their files anew. A file, a spec, a "
        "vocabulary or a version that changed is transformed again. Several runs may use one "
        "folder. The first run is slower by the writing.",
    )
    flags.DEFINE_float(
        "input_cache_gib", _DEFAULTS["input_cache_gib"],
        "GiB that --input_cache_dir may hold; the files used longest ago are removed for room.",
        **here,
    )  # fmt: skip
    choice(
        "corrupt_data_policy", CORRUPT_DATA_POLICIES,
        "What to do about files that are damaged and records that the spec cannot use. fail: stop, "
        "and name file, byte and reason. skip_record: read the good records alone. quarantine: "
        "leave out each file with a bad record, and list it. The last two read all files once "
        "before anything else; counts are in result.json, the files in model_dir/bad_data.json.",
    )  # fmt: skip
    integer(
        "max_bad_records",
        "With --corrupt_data_policy=skip_record or quarantine: more bad records than this, in the "
        "files of one flag, stop the run (exit status 65) before it begins.",
    )
    flags.DEFINE_float(
        "max_bad_fraction", _DEFAULTS["max_bad_fraction"],
        "The same for the share of records, or of bytes where that is larger, that is left out of "
        "the files of one flag: 0.01 is one in a hundred.", **here,
    )  # fmt: skip
    text(
        "data_service",
        "grpc://host:port of the dispatcher of a tf.data service. Its workers then read, shuffle, "
        "parse and transform the training rows, on other machines, which have to reach the files "
        "under the same names. Each row is read once an epoch, in no fixed order; a worker that is "
        "lost takes the rows along that it had in hand. With --mode=data_service_worker: the "
        "dispatcher that the worker belongs to.",
    )
    integer(
        "data_service_port",
        "With --mode=data_service_dispatcher or data_service_worker: the port to listen at; 0 "
        "takes a free one. The line that is printed says which.",
    )
    text(
        "data_service_host",
        "With these modes: the name under which others reach this machine; its host name when not "
        "given (localhost for a worker whose dispatcher is there).",
    )
    text(
        "data_service_dir",
        "With --mode=data_service_dispatcher: a folder for what it knows. Started again with the "
        "same one it goes on with its trainings, at the same port.",
    )
    flags.DEFINE_float(
        "data_service_timeout_secs", _DEFAULTS["data_service_timeout_secs"],
        "With --data_service: seconds to wait for the dispatcher and a first worker; for rows that "
        "are missing at the end, before they are taken for lost with a worker; and a third of "
        "those that a step may take.", **here,
    )  # fmt: skip
    integer("max_steps", "Training ends at this global step, over all starts together.")
    integer(
        "epochs",
        "Training ends when every row was read so often, over all starts together. With "
        "--max_steps too, whichever comes first.",
    )
    integer("save_checkpoints_steps", "Steps between checkpoints.")
    integer("save_checkpoints_secs", "Seconds between checkpoints; 600 when neither is given.")
    integer("keep_checkpoint_max", "Checkpoints that are kept, the latest ones.")
    text(
        "warm_start_from",
        "A checkpoint, a model_dir or a SavedModel whose variables a new training starts from. "
        "Their shapes must fit; rows of vocabularies and classes whose words moved are moved. "
        "Plays no part when model_dir already has a checkpoint.",
    )
    choice(
        "warm_start_mode", WARM_START_MODES,
        "What a warm start takes. weights: trainable variables and embedding tables. "
        "weights_and_stats: also what layers keep beside them, such as moving means. all_but_step: "
        "also the slots of optimizers. all: also the global step. FTRL's slots come with weights.",
    )  # fmt: skip
    text(
        "warm_start_vars",
        "Regular expression: which variables warm start takes, by full name. Slots of optimizers "
        "follow their variable.",
    )
    listing(
        "warm_start_rename",
        "Variables that have another name in the source: old=new, old a regular expression for a "
        r"whole name there and new the name in the model, as in dnn/(.*)=tower/\1.",
    )
    integer("eval_steps", "Batches an evaluation; all of --eval_files when not given.")
    integer("eval_throttle_secs", "Least seconds between evaluations; 0 is every checkpoint.")
    text(
        "early_stopping_metric",
        "Stop when this metric has not improved for --early_stopping_patience evaluations. "
        "Metrics are named <metric>/<objective>, as in auc/click.",
    )
    choice(
        "early_stopping_direction", ("min", "max"),
        "Which way that metric gets better; losses do by min, and others need it said.",
    )  # fmt: skip
    integer("early_stopping_patience", "Evaluations without improvement before the stop.")
    listing(
        "exporters",
        f"Which SavedModels train_and_evaluate writes, of {', '.join(EXPORTERS)}: latest after "
        "every evaluation, best when --best_metric improves (over all starts), final at the end.",
    )
    text("best_metric", "The metric of the best exporter, as in auc/click. Checked at the start.")
    choice(
        "best_direction", ("min", "max"),
        "Which way the best metric gets better; losses do by min, and others need it said.",
    )  # fmt: skip
    integer("exports_to_keep", "SavedModels that latest and best keep, the newest ones.")
    text(
        "predict_output",
        "Where predictions go: a .jsonl file (one JSON object a row) or a .tfrecord file (one "
        "Example a row), in the order of the input. Standard output, as JSON, when not given.",
    )
    integer("predict_limit", "Predict this many rows, then end.")
    text(
        "export_dir",
        "With --mode=predict: the SavedModel to predict with, instead of the latest checkpoint.",
    )
    text(
        "analysis_dir",
        "With --mode=analyze and --mode=import_schema: the folder for the first spec, its "
        "vocabularies and statistics. "
        "What it holds that analysis did not write is never overwritten.",
    )
    listing(
        "labels",
        "With --mode=analyze and --mode=import_schema: the features that are to be learned. A "
        "Schema may say them itself: by the tag label, or by not being there in serving.",
    )
    text(
        "schema_file",
        "With --mode=import_schema: the Schema of TensorFlow Metadata to read, in text format "
        "(schema.pbtxt). With --mode=export_schema: the file to write; another one that is there "
        "is never overwritten.",
    )
    integer("min_count", "With --mode=analyze: rarer words are in no vocabulary file.")
    listing(
        "convert_files",
        "With --mode=convert: tables to write as TFRecords, paths or globs: Parquet (.parquet), "
        "CSV (.csv, .tsv) or JSON lines (.jsonl, .json), all of one kind. With --spec, its "
        "features and labels are written, of its types, and a row that a training would stop at "
        "is an error; without, all columns.",
    )
    text(
        "convert_dir",
        "With --mode=convert: the folder for the shards, with _MANIFEST.json and, at the end, "
        "_SUCCESS. Started again, the same command writes the shards that are missing; a folder "
        "that holds something else is never touched.",
    )
    choice(
        "convert_order", ("stable", "shuffled"),
        "With --mode=convert: stable keeps the order of the rows, in the sorted files. shuffled "
        "deals all rows to the shards at random, by --seed; until it is through that takes as "
        "much space in --convert_dir again as the shards do without compression.",
    )  # fmt: skip
    integer(
        "convert_processes",
        "With --mode=convert: processes that share the work, one a core when not given. What is "
        "written does not depend on it.",
    )
    text(
        "beam_options",
        "With --mode=convert and --mode=analyze: do the work as an Apache Beam pipeline with these "
        "flags of Beam, separated by blanks: --beam_options='--runner=DataflowRunner --project=ads "
        "--region=europe-west1 --temp_location=gs://ads/temporary'. --runner has to be there. What "
        "is written is the same as without. The workers need estimator-kit, and the same paths of "
        "files and --convert_dir as this program; analysis on other machines needs a "
        "--temp_location. Needs estimator-kit[beam].",
    )
    integer("shard_mib", "With --mode=convert: about MiB of records a shard, before compression.")
    choice(
        "shard_compression", ("none", "gzip"),
        "With --mode=convert: gzip makes .tfrecord.gz, smaller and slower to write and to read.",
    )  # fmt: skip
    text(
        "split_key",
        "With --mode=convert: write train-* and eval-* instead of data-*, all rows of one value of "
        "this column (as user_id) on one side. A hash of the value decides, so the side is the "
        "same in every conversion with the same --eval_fraction.",
    )
    flags.DEFINE_float(
        "eval_fraction", None,
        "With --split_key: the share of its values whose rows are for evaluation, as 0.1.", **here,
    )  # fmt: skip
    listing(
        "step_columns",
        "With --mode=convert without --spec: columns of lists that hold steps of a sequence. They "
        "become feature_lists, and the records SequenceExamples; other lists are features of "
        "several values.",
    )
    listing(
        "csv_columns",
        "Names of the columns of CSV files that do not begin with a line of names.",
    )
    text(
        "csv_delimiter",
        "What separates the fields of CSV files: one character, \\t for a tab; by default a comma, "
        "and a tab for .tsv.",
    )
    flags.DEFINE_bool(
        "csv_skip_spaces", _DEFAULTS["csv_skip_spaces"],
        "Spaces at the start of the fields of CSV files are no part of them.", **here,
    )  # fmt: skip
    text("csv_comment", "Lines of CSV files that start with this, as #, are no rows.")
    listing(
        "csv_missing",
        "Fields of CSV files that are missing values, as ? or NA. An empty field always is; two "
        "quotes with nothing between them are the empty string.",
    )
    integer(
        "validate_rows",
        "With --mode=validate: hold this many rows of --train_files against the spec, too. 0 looks "
        "at no data, and needs no TensorFlow.",
    )
    listing(
        "baseline_files",
        "With --mode=validate: files of before (TFRecord, Parquet, CSV or JSON lines, by their "
        "names, as --train_files may then be); how far --train_files moved from them is measured, "
        "and held against the section drift of the spec.",
    )
    text(
        "baseline_statistics",
        "With --mode=validate: the same, from the statistics.json of an earlier --mode=analyze in "
        "the place of its records.",
    )
    flags.DEFINE_bool(
        "profile_input", _DEFAULTS["profile_input"],
        "Profile a hundred of the first steps, and say which share of their time they wait for "
        "input, which stage of it is busiest, and what to change.", **here,
    )  # fmt: skip
    flags.DEFINE_float(
        "log_every_secs", _DEFAULTS["log_every_secs"],
        "Seconds between lines of progress where there is no terminal.", **here,
    )  # fmt: skip
    integer("intra_op_threads", "Threads inside one op; 0 lets TensorFlow choose.")
    integer("inter_op_threads", "Ops that run at the same time; 0 lets TensorFlow choose.")


def config_from_flags(values: flags.FlagValues = flags.FLAGS) -> ExperimentConfig:
    """The ExperimentConfig that parsed flags describe.

    Raises:
      ConfigError: a value is wrong, or flags do not go together.
    """
    given = {name: values[name].value for name in _DEFAULTS}
    given["model_params"] = _model_params(given["model_params"] or [])
    return ExperimentConfig(**{name: value for name, value in given.items() if value is not None})


def _model_params(entries: Sequence[str]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    for entry in entries:
        if not entry:
            params = {}
            continue
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"--model_params: got {entry!r}, expected name=value")
        try:
            params[name.strip()] = read_text(value, f"--model_params={name}")[0]
        except SpecError as error:
            problem = error.problems[0]
            raise ConfigError(
                f"--model_params: the value of {entry!r}: {path_text(problem.path)}: "
                f"{problem.message}"
            ) from error
    return params


def resolved_flags(config: ExperimentConfig) -> str:
    """The config as a flagfile that makes the same config again, one flag a line, sorted."""
    lines = []
    for name, value in sorted(config.model_dump().items()):
        if value is None or (value == () and not _DEFAULTS[name]):
            continue
        if name == "model_params":
            lines += [f"--model_params={key}={_yaml(v)}" for key, v in sorted(value.items())]
        elif isinstance(value, bool):
            lines.append(f"--{'' if value else 'no'}{name}")
        else:
            text = _comma_separated(value) if isinstance(value, tuple) else str(value)
            lines.append(f"--{name}={text}")
    return "\n".join(lines) + "\n"


def _yaml(value: Any) -> str:
    """A parameter's value on one line, without what `flagfile` would take for a mistake."""
    text = json.dumps(value)
    return text.replace("#", r"\u0023").replace("$", r"\u0024").replace("//", r"/\u002f")


def _comma_separated(values: tuple[str, ...]) -> str:
    """A list as absl's list flags read it: commas inside a value are quoted."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()
