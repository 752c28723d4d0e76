"""The modes of a run, and the groups of them that share a rule. Imports nothing but typing."""

from __future__ import annotations

from typing import Literal, get_args

Mode = Literal[
    "train_and_evaluate", "train", "evaluate", "predict", "export", "validate", "analyze",
    "convert", "import_schema", "export_schema", "check_data",
    "data_service_dispatcher", "data_service_worker",
]  # fmt: skip
MODES: tuple[Mode, ...] = get_args(Mode)
TRAINING_MODES = ("train_and_evaluate", "train")
SERVICE_MODES = ("data_service_dispatcher", "data_service_worker")
SCHEMA_MODES = ("import_schema", "export_schema")
