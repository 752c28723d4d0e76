"""The other forms of an export. Imports no TensorFlow."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, Optional

from pydantic import Field

from estimator_kit.config.areas.base import InStore, Settings, setting
from estimator_kit.config.areas.data import Data
from estimator_kit.config.areas.prediction import Prediction
from estimator_kit.config.areas.program import Program
from feature_specs.entry import PositiveFloat

# Forms with smaller tables, whose answers differ.
SMALLER_TABLES = ("tables_int8", "tables_float16")


class Transforming(Settings):
    """The other forms of an export."""

    heading: ClassVar[str] = "Transforming"

    transform: Optional[
        Literal[
            "freeze",
            "optimize",
            "tables_int8",
            "tables_float16",
            "text",
            "binary",
            "tflite",
            "tflite_dynamic",
            "tflite_int8",
            "onnx",
            "item_vectors",
            "item_vectors_parquet",
            "item_index",
        ]
    ] = setting(
        None,
        "The form to write --export_dir in. freeze: variables become constants. optimize: as "
        "freeze, and Grappler prunes and folds the graph. tables_int8, tables_float16: embedding "
        "tables in int8 with a scale for each row, or in float16; needs --eval_files. text, "
        "binary: saved_model.pbtxt or saved_model.pb. tflite: a file for TensorFlow Lite. "
        "tflite_dynamic: as tflite, with large weights as int8. tflite_int8: weights and "
        "activations as int8, with the ranges "
        "of the first 500 rows of --predict_files. onnx: a file for ONNX Runtime, which needs "
        "`pip install 'estimator-kit[onnx]'`. item_vectors: the vectors of the items of a "
        "retrieval model, and their words or ids, as vectors.npy for NumPy and items.txt. "
        "item_vectors_parquet: the same as one table with the columns item and vector. "
        "item_index: a FAISS index over these vectors, which needs `pip install "
        "'estimator-kit[index]'`.",
        changes="nothing",
    )
    transform_dir: Optional[str] = setting(
        None,
        "The folder for the result. It must not exist yet.",
        changes="nothing",
        in_store=InStore.FOLDER,
    )
    transform_inputs: Literal["features", "columns"] = setting(
        "features",
        "The inputs of a file for TensorFlow Lite or ONNX. features: one tensor for each "
        "feature, as in the signature predict_raw. columns: the ids and numbers that the model "
        "reads, so that the app does the hashing and the lookup of strings.",
        changes="nothing",
    )
    transform_tolerance: Optional[PositiveFloat] = setting(
        None,
        "How far the predictions of the result may differ on the first 1,000 rows of "
        "--predict_files. The difference is absolute, or relative for numbers above 1. A result "
        "that differs more is refused. The default is 1e-5; tables_int8 and tables_float16 have "
        "none, because their loss decides.",
        changes="limits",
    )
    index_recall: Annotated[float, Field(gt=0, le=1)] = setting(
        0.95,
        "With --transform=item_index: the smallest share of the ten best items that the index must "
        "find, on the first 1,000 rows of --eval_files, or of --predict_files without it. The kit "
        "lets the index search as far as this takes. An index that finds fewer is refused.",
        changes="limits",
    )
    transform_max_loss_increase: PositiveFloat = setting(
        0.01,
        "With --eval_files: by which share the loss of an objective may rise on their first "
        "10,000 rows; 0.01 is 1 percent. A result that loses more is refused.",
        changes="limits",
    )

    @property
    def tolerance(self) -> float:
        """`transform_tolerance`, or its default."""
        if self.transform_tolerance is not None:
            return self.transform_tolerance
        return math.inf if self.transform in SMALLER_TABLES else 1e-5


def problems(
    transforming: Transforming, program: Program, data: Data, prediction: Prediction
) -> list[str]:
    """Settings that the chosen form does not read, or lacks."""
    lines = []
    if transforming.transform_inputs != "features":
        if transforming.transform not in ("tflite", "tflite_dynamic", "tflite_int8", "onnx"):
            lines.append(
                f"--transform_inputs={transforming.transform_inputs} is only for "
                "--transform=tflite, tflite_dynamic, tflite_int8 and onnx. Remove it."
            )
    of_vectors = transforming.transform in ("item_vectors", "item_vectors_parquet")
    of_items = of_vectors or transforming.transform == "item_index"
    if program.mode == "transform" and prediction.keep_columns and not of_items:
        lines.append(
            "--keep_columns is only for --transform=item_vectors and item_index. Remove it."
        )
    if transforming.transform in SMALLER_TABLES and not data.eval_files:
        lines.append(
            f"--transform={transforming.transform} changes all answers a little. Give "
            "--eval_files: the loss on them decides whether the result is good enough."
        )
    if data.eval_files and of_vectors:
        lines.append(f"--eval_files is not for --transform={transforming.transform}. Remove it.")
    return lines
