"""What is looked at, and which other form an export gets."""

from __future__ import annotations

from typing import ClassVar, Literal, Optional

from estimator_kit.config.settings.base import Settings, setting
from feature_specs.entry import PositiveFloat


class TransformSettings(Settings):
    """What is looked at, and which other form an export gets."""

    heading: ClassVar[str] = "Looking at exports and changing their form"

    inspect_path: Optional[str] = setting(
        None,
        "With --mode=inspect: an export, a checkpoint or a model directory.",
    )
    graph_dir: Optional[str] = setting(
        None,
        "With --mode=inspect: the folder for a file of events with the graph, for TensorBoard.",
    )
    transform: Optional[
        Literal[
            "freeze",
            "optimize",
            "text",
            "binary",
            "tflite",
            "tflite_dynamic",
            "tflite_int8",
            "onnx",
        ]
    ] = setting(
        None,
        "With --mode=transform: what becomes of --export_dir. freeze: variables become "
        "constants. optimize: the same, pruned and folded by Grappler. text, binary: the form "
        "of saved_model. tflite: a file for TensorFlow Lite. tflite_dynamic: the same with "
        "large weights as int8. tflite_int8: weights and activations as int8, by "
        "--representative_files. onnx: a file for ONNX Runtime; it needs the extra onnx.",
    )
    transform_dir: Optional[str] = setting(
        None,
        "With --mode=transform: the new folder of the result.",
    )
    transform_inputs: Literal["features", "columns"] = setting(
        "features",
        "What a file for TensorFlow Lite or ONNX takes. features: one tensor a feature, as the "
        "signature predict_raw. columns: what the model reads of them, ids and numbers, so that "
        "the app hashes and looks up strings.",
    )
    representative_files: tuple[str, ...] = setting(
        (),
        "With --transform=tflite_int8: TFRecord files whose first 500 rows say which ranges the "
        "numbers inside the model have.",
    )
    transform_tolerance: PositiveFloat = setting(
        1e-5,
        "With --mode=transform: the largest difference of answers, absolute or relative above "
        "1, on the first 1,000 rows of --predict_files; a result that differs more is refused.",
    )
    transform_max_loss_increase: PositiveFloat = setting(
        0.01,
        "With --mode=transform and --eval_files: by what share of itself the loss of an "
        "objective may rise on their first 10,000 rows, as 0.01 for one percent; a result that "
        "loses more is refused.",
    )
