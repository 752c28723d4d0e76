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
        if config.transform in (None, "freeze", "optimize", "text", "binary"):
            found.append(
                f"--transform_inputs={config.transform_inputs} is only for --transform=tflite, "
                "tflite_dynamic, tflite_int8 and onnx. Remove it."
            )
    return found
