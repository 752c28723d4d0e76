"""The flags of what a run is: mode, spec, model, folder, seed, threads, log."""

from __future__ import annotations

from estimator_kit.config.flags.definer import Definer
from estimator_kit.config.modes import MODES


def define_flags(define: Definer) -> None:
    define.choice(
        "mode",
        MODES,
        "What to do. train_and_evaluate: train, evaluate at every checkpoint, export. train: train "
        "alone. evaluate: score the latest checkpoint on --eval_files. predict: score "
        "--predict_files. export: write a SavedModel of the latest checkpoint. inspect: say what "
        "is in an export, a checkpoint or a model directory (--inspect_path). transform: "
        "write an export in another form (--transform). validate: check "
        "flags and spec, without TensorFlow, in a fraction of a second. analyze: write a first "
        "spec for --train_files (TFRecord, Parquet, CSV or JSON lines, by their names), or refresh "
        "the files that a --spec refers to. convert: write --convert_files (Parquet, CSV or JSON "
        "lines) as sharded TFRecords, without TensorFlow. import_schema: write a first spec for "
        "the TensorFlow Metadata Schema in --schema_file. export_schema: write --spec as such a "
        "Schema. check_data: read all records of --train_files, --eval_files and --predict_files "
        "and list what is bad, also by --spec where it is given; with a --model_dir, result.json "
        "is written there. data_service_dispatcher, data_service_worker: run a server of a tf.data "
        "service until SIGTERM or Ctrl-C; see --data_service. serve: answer TensorFlow Serving's "
        "gRPC and REST requests for --serving_models, for development and small loads, until "
        "SIGTERM or Ctrl-C; production belongs to TensorFlow Serving. serving_config: write the "
        "files that TensorFlow Serving is started with. retrain: one cycle of retraining in "
        "--model_dir: choose a window of days, check it, train, hold the candidate against the "
        "live model, promote it. rollback: make the version --to live again. history: a table of "
        "all cycles. reproduce: train --cycle again and say what differs.",
    )
    define.text(
        "spec",
        "The feature spec, a YAML or JSON file. feature_specs/catalog holds examples.",
    )
    define.text(
        "model",
        "linear, dnn, wide_deep, fm, deepfm, dcn, xdeepfm, autoint (features crossed); din, gru, "
        "lstm, transformer (sequences); shared_bottom, mmoe, cgc, ple (several objectives); esmm, "
        "aitm (objectives that are steps one after the other); two_tower (retrieval); or a ModelFn "
        "of your own as package.module:ClassName.",
    )
    define.repeated(
        "model_params",
        "A parameter of the model as name=value, the value in YAML: "
        "--model_params=hidden_units=[128,64] --model_params=learning_rate=0.02. May be repeated; "
        "the later of two for one name counts, and an empty one (--model_params=) drops those "
        "before it. An unknown name is an error that lists those there are.",
    )
    define.text(
        "model_dir",
        "The run's folder: checkpoints, exports, events for TensorBoard, result.json. Started "
        "again with the same one, training goes on from the last checkpoint.",
    )
    define.text(
        "generate_default_data",
        "A folder for the embedded default data, a synthetic advertising log (200,000 rows in 8 "
        "days); it is generated there first when it is not there yet.",
    )
    define.integer(
        "seed",
        "Decides the order of rows and the initial variables.",
    )
    define.switch(
        "deterministic",
        "Two trainings from one start give the same checkpoint, bit for bit, on the same machine, "
        "TensorFlow and number of threads: TensorFlow then adds up in a fixed order, which costs "
        "speed, and fails at an op that has none. Without it the rows are the same, and sums "
        "differ in their last bits.",
    )
    define.switch(
        "profile_input",
        "Profile a hundred of the first steps, and say which share of their time they wait for "
        "input, which stage of it is busiest, and what to change.",
    )
    define.number(
        "log_every_secs",
        "Seconds between lines of progress where there is no terminal.",
    )
    define.integer(
        "intra_op_threads",
        "Threads inside one op; 0 lets TensorFlow choose.",
    )
    define.integer(
        "inter_op_threads",
        "Ops that run at the same time; 0 lets TensorFlow choose.",
    )
