"""The flags of exports: when they are written, which are kept, how they answer."""

from __future__ import annotations

from estimator_kit.config.flags.definer import Definer
from estimator_kit.config.rules import EXPORTERS


def define_flags(define: Definer) -> None:
    define.listing(
        "exporters",
        f"Which SavedModels train_and_evaluate writes, of {', '.join(EXPORTERS)}: latest after "
        "every evaluation, best when --best_metric improves (over all starts), best_k when it is "
        "among the --best_k best ones, step each --export_every_steps, final at the end. Each is "
        "asked with rows of --eval_files before it gets its name.",
    )
    define.text(
        "best_metric",
        "The metric of the exporters best and best_k, as in auc/click. Checked at the start.",
    )
    define.choice(
        "best_direction",
        ("min", "max"),
        "Which way the best metric gets better; losses do by min, and others need it said.",
    )
    define.integer(
        "best_k",
        "SavedModels that best_k keeps, the best ones; of two that are equal, the older.",
    )
    define.integer(
        "export_every_steps",
        "Steps between the exports of step: the first evaluated checkpoint at or after each "
        "multiple.",
    )
    define.integer(
        "exports_to_keep",
        "SavedModels that latest, best and step keep, the newest ones. Those that keep.json beside "
        "them names as pinned or live stay, too.",
    )
    define.integer(
        "export_check_rows",
        "The first rows of --eval_files that each export is asked with before it gets its name. Of "
        "the first 100,000 rows, those with missing, unknown and extreme values of each feature "
        "are added.",
    )
    define.text(
        "inspect_path",
        "With --mode=inspect: an export, a checkpoint or a model directory.",
    )
    define.text(
        "graph_dir",
        "With --mode=inspect: the folder for a file of events with the graph, for TensorBoard.",
    )
    define.choice(
        "transform",
        (
            "freeze", "optimize", "text", "binary",
            "tflite", "tflite_dynamic", "tflite_int8", "onnx",
        ),
        "With --mode=transform: what becomes of --export_dir. freeze: variables become constants. "
        "optimize: the same, pruned and folded by Grappler. text, binary: the form of saved_model. "
        "tflite: a file for TensorFlow Lite. tflite_dynamic: the same with large weights as int8. "
        "tflite_int8: weights and activations as int8, by --representative_files. onnx: a file for "
        "ONNX Runtime; it needs the extra onnx.",
    )  # fmt: skip
    define.text(
        "transform_dir",
        "With --mode=transform: the new folder of the result.",
    )
    define.choice(
        "transform_inputs",
        ("features", "columns"),
        "What a file for TensorFlow Lite or ONNX takes. features: one tensor a feature, as the "
        "signature predict_raw. columns: what the model reads of them, ids and numbers, so that "
        "the app hashes and looks up strings.",
    )
    define.listing(
        "representative_files",
        "With --transform=tflite_int8: TFRecord files whose first 500 rows say which ranges the "
        "numbers inside the model have.",
    )
    define.number(
        "transform_tolerance",
        "With --mode=transform: the largest difference of answers, absolute or relative above 1, "
        "on the first 1,000 rows of --predict_files; a result that differs more is refused.",
    )
    define.number(
        "transform_max_loss_increase",
        "With --mode=transform and --eval_files: by what share of itself the loss of an objective "
        "may rise on their first 10,000 rows, as 0.01 for one percent; a result that loses more is "
        "refused.",
    )
    define.text(
        "default_signature",
        "Which signature of an export is serving_default: predict_examples (all objectives, from "
        "serialized records), predict_raw (the same, from one tensor a feature), or "
        "predict/<objective>, classify/<objective>, regress/<objective> as its head has them.",
    )
