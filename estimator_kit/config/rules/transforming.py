"""Which settings go together in `--mode=transform`. Imports no TensorFlow."""

from __future__ import annotations

from estimator_kit.config.settings import AllSettings


def problems(config: AllSettings) -> list[str]:
    """Settings that the chosen form does not read, or lacks."""
    found = []
    if config.transform == "tflite_int8" and not config.representative_files:
        found.append(
            "--representative_files is missing. --transform=tflite_int8 needs rows that show the "
            "ranges of numbers inside the model."
        )
    if config.representative_files and config.transform != "tflite_int8":
        found.append("--representative_files is only for --transform=tflite_int8. Remove it.")
    if config.transform_inputs != "features":
        if config.transform not in ("tflite", "tflite_dynamic", "tflite_int8", "onnx"):
            found.append(
                f"--transform_inputs={config.transform_inputs} is only for --transform=tflite, "
                "tflite_dynamic, tflite_int8 and onnx. Remove it."
            )
    of_items = config.transform in ("item_vectors", "item_index")
    if config.mode == "transform" and config.keep_columns and not of_items:
        found.append(
            "--keep_columns is only for --transform=item_vectors and item_index. Remove it."
        )
    if config.item_vectors_format != "npy" and config.transform != "item_vectors":
        found.append(
            f"--item_vectors_format={config.item_vectors_format} is only for "
            "--transform=item_vectors. Remove it."
        )
    if config.eval_files and config.transform == "item_vectors":
        found.append("--eval_files is not for --transform=item_vectors. Remove it.")
    return found
