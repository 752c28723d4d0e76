"""The modes of a run, and the groups of them that share a rule. Imports nothing but typing."""

from __future__ import annotations

from typing import Literal, get_args

Mode = Literal[
    "train_and_evaluate", "train", "evaluate", "predict", "export", "validate", "analyze",
    "inspect", "transform", "convert", "import_schema", "export_schema", "check_data",
    "data_service_dispatcher", "data_service_worker", "serve", "serving_config", "retrain",
    "rollback", "history", "reproduce",
]  # fmt: skip
MODES: tuple[Mode, ...] = get_args(Mode)
TRAINING_MODES = ("train_and_evaluate", "train")
SERVICE_MODES = ("data_service_dispatcher", "data_service_worker")
SERVING_MODES = ("serve", "serving_config")
# Of one retraining directory; `retrain` alone reads spec and data that flags name.
RETRAINING_MODES = ("retrain", "rollback", "history", "reproduce")
SCHEMA_MODES = ("import_schema", "export_schema")
WITHOUT_SPEC = (
    "analyze", "convert", "import_schema", "check_data", "inspect", "transform",
    *SERVICE_MODES, *SERVING_MODES, "rollback", "history", "reproduce",
)  # fmt: skip
WITHOUT_MODEL_DIR = (
    "analyze", "convert", "import_schema", "check_data", "inspect", "transform", "validate",
    "export_schema", *SERVICE_MODES, *SERVING_MODES,
)  # fmt: skip
