"""The flags of the length of training, evaluation and predictions."""

from __future__ import annotations

from estimator_kit.config.experiment_config import WARM_START_MODES
from estimator_kit.config.flags.definer import Definer


def define_flags(define: Definer) -> None:
    define.integer(
        "max_steps",
        "Training ends at this global step, over all starts together.",
    )
    define.integer(
        "epochs",
        "Training ends when every row was read so often, over all starts together. With "
        "--max_steps too, whichever comes first.",
    )
    define.integer(
        "save_checkpoints_steps",
        "Steps between checkpoints.",
    )
    define.integer(
        "save_checkpoints_secs",
        "Seconds between checkpoints; 600 when neither is given.",
    )
    define.integer(
        "keep_checkpoint_max",
        "Checkpoints that are kept, the latest ones.",
    )
    define.text(
        "warm_start_from",
        "A checkpoint, a model_dir or a SavedModel whose variables a new training starts from. "
        "Their shapes must fit; rows of vocabularies and classes whose words moved are moved. "
        "Plays no part when model_dir already has a checkpoint.",
    )
    define.choice(
        "warm_start_mode",
        WARM_START_MODES,
        "What a warm start takes. weights: trainable variables and embedding tables. "
        "weights_and_stats: also what layers keep beside them, such as moving means. all_but_step: "
        "also the slots of optimizers. all: also the global step. FTRL's slots come with weights.",
    )
    define.text(
        "warm_start_vars",
        "Regular expression: which variables warm start takes, by full name. Slots of optimizers "
        "follow their variable.",
    )
    define.listing(
        "warm_start_rename",
        "Variables that have another name in the source: old=new, old a regular expression for a "
        r"whole name there and new the name in the model, as in dnn/(.*)=tower/\1.",
    )
    define.integer(
        "eval_steps",
        "Batches an evaluation; all of --eval_files when not given.",
    )
    define.text(
        "eval_name",
        "With --mode=evaluate: what the evaluation is called. Its numbers are kept in "
        "evaluation-<name>.json in --model_dir, and for TensorBoard in the folder eval_<name>. A "
        "later evaluation of the same name takes the place of the file.",
    )
    define.integer(
        "eval_throttle_secs",
        "Least seconds between evaluations; 0 is every checkpoint.",
    )
    define.text(
        "early_stopping_metric",
        "Stop when this metric has not improved for --early_stopping_patience evaluations. "
        "Metrics are named <metric>/<objective>, as in auc/click.",
    )
    define.choice(
        "early_stopping_direction",
        ("min", "max"),
        "Which way that metric gets better; losses do by min, and others need it said.",
    )
    define.integer(
        "early_stopping_patience",
        "Evaluations without improvement before the stop.",
    )
    define.text(
        "predict_output",
        "Where predictions go: a .jsonl file (one JSON object a row) or a .tfrecord file (one "
        "Example a row), in the order of the input. Standard output, as JSON, when not given.",
    )
    define.integer(
        "predict_limit",
        "Predict this many rows, then end.",
    )
    define.listing(
        "predict_outputs",
        "With --mode=predict: the outputs to write, in this order, as "
        "click/class_ids,click/classes. All of them when not given, which for 10,000 classes is "
        "20,000 numbers a row.",
    )
    define.text(
        "export_dir",
        "With --mode=predict: the SavedModel to predict with, instead of the latest checkpoint. "
        "With --mode=transform: the one to transform.",
    )
    define.text(
        "predict_dir",
        "With --mode=predict and --export_dir: the folder for the predictions of many files, which "
        "may also be tables (Parquet, CSV or JSON lines, by their names; the export says how rows "
        "become records, so no --spec is needed). Each file of --predict_files gets one of its "
        "kind and name, row by row; with _MANIFEST.json and, at the end, _SUCCESS. Started again, "
        "the same command predicts the files that are missing; a folder that holds something else "
        "is never touched.",
    )
    define.listing(
        "keep_columns",
        "With --predict_dir: columns of the tables, or features of the records, that stand before "
        "the predictions of each row, as user_id.",
    )
    define.integer(
        "predict_processes",
        "With --predict_dir: processes that share the files, one a core when not given, or fewer "
        "for small data. Each loads the export.",
    )
