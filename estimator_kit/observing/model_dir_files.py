"""The files that a run and its exports leave, and what each is. Imports no TensorFlow.

    meaning_of("export/best/1767225600/saved_model.pb")

The tables are for readers: the reference of the documentation is made from them. A test compares
them with what a run writes. In a pattern `<x>` stands for one name and `**` for anything below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Optional

# Below `--model_dir`.
MODEL_DIR: Mapping[str, str] = {
    "result.json": "The result of the last run: status, stop reason, step, metrics, paths of "
    "exports, rates and row counts.",
    "report.html": "The report page, with charts of the run. `--mode=report` writes it again.",
    "compare.html": "The page that `--mode=report --compare` writes.",
    "history.html": "The page of all cycles of `--mode=retrain`.",
    "observed/training.jsonl": "Losses, learning rate and gradient norm of every 100th step.",
    "observed/curves/<step>.json": "What the report page draws of an evaluation, by objective.",
    "observed/slices.json": "The metrics of the slices of `--slices`.",
    "observed/importance.json": "What each feature is worth to the model, by `--importance`.",
    "observed/flops.json": "How many operations the matrix products of a prediction take.",
    "eval_history.jsonl": "The metrics of each evaluation, one line each, with the step and a "
    "digest of what they mean.",
    "eval_meaning.json": "What the metrics of the last evaluation mean: its rows and formulas. A "
    "start compares it with its own.",
    "unfinished.json": "The step of a checkpoint that is being evaluated, exported or reported. A "
    "start after a kill goes on there.",
    "flags.txt": "Every flag of the last training, as a flagfile.",
    "input.json": "What the steps count: files with sizes and samples of their content, batch size "
    "and seed. A restart reads it to go on at the right row.",
    "versions.json": "The versions of Python, TensorFlow and other packages, and a digest of the "
    "spec.",
    "model_params.json": "The parameters of the model, with defaults.",
    "feature_spec/spec.json": "The feature spec of the last training.",
    "feature_spec/digests.json": "A digest of each file that the spec names.",
    "feature_spec/places.json": "What owns each row and column of a kernel, for a changed spec "
    "and for warm starts.",
    "feature_spec/**": "The files that the spec names, such as vocabularies.",
    "checkpoint": "TensorFlow's list of the checkpoints that are kept.",
    "model.ckpt-<step>.<part>": "A checkpoint.",
    "events.out.tfevents.<process>": "Summaries of training for TensorBoard, its charts, the "
    "graph, and the spec.",
    "eval/events.out.tfevents.<process>": "Metrics and precision-recall curves of evaluations for "
    "TensorBoard, hyperparameters, and slices.",
    "eval_<name>/events.out.tfevents.<process>": "Summaries of evaluations with `--eval_name`.",
    "projector_config.pbtxt": "The embedding tables for TensorBoard's page Projector.",
    "projector/<table>.tsv": "The first 10,000 rows of an embedding table, for TensorBoard.",
    "projector/<table>.metadata.tsv": "The words of these rows, if the vocabulary is known.",
    "eval/projector_config.pbtxt": "Keeps TensorBoard from listing the matrices of checkpoints.",
    "eval_<name>/projector_config.pbtxt": "The same.",
    "plugins/profile/<time>/<file>": "The traces of `--profile` and `--profile_input`, for "
    "TensorBoard.",
    "timeline/timeline-<step>.json": "A trace of one step, by `--timeline`, for Chrome.",
    "timeline/events.out.tfevents.<process>": "The same traces for TensorBoard's page Graphs.",
    "lock.json": "Which process works in this directory.",
    "_LOCK": "The file that a process locks while it works in this directory.",
    "bad_data.json": "What was skipped because it was damaged.",
    "check_data.json": "The findings of `--mode=check_data`.",
    "evaluation-<name>.json": "The result of `--mode=evaluate` with `--eval_name`.",
    "warm_start_report.json": "What a warm start did with each variable.",
    "cluster/**": "Marks by which the tasks of a cluster know of each other.",
    "export/<exporter>/best.json": "The best metric so far, for the exporter `best`.",
    "export/<exporter>/best_k.json": "The metrics of the kept exports, for the exporter `best_k`.",
    "export/<exporter>/step.json": "The step of the last export, for the exporter `step`.",
    "export/<exporter>/keep.json": "The versions that are never deleted, `pinned` or `live`. You "
    "write this file.",
    "export/<exporter>/<version>/**": "An export: see the next table.",
    "trials/<trial>/**": "A trial of `--mode=tune`: the model directory of its training, its "
    "flagfile (`trial.flags`), its output (`log.txt`), and the lock of its owner (`owner/`).",
    "trials/events.out.tfevents.<process>": "The columns of TensorBoard's page HParams.",
    "search.journal": "The trials of `--mode=tune`, as Optuna's journal. A later start goes on "
    "with it.",
    "search.json": "The trials of `--mode=tune`, the best one, and its score on `--test_files`.",
    "search.html": "The page of `--mode=tune`.",
    "best.flags": "A flagfile that trains the best trial of `--mode=tune` again.",
    "test.flags": "A flagfile that scores the best trial of `--mode=tune` on `--test_files`.",
    "test.log": "The output of this scoring.",
    "serving.json": "The `--serving_dir` of the last promotion; null for the default.",
    "cycles/<cycle>/**": "A cycle of `--mode=retrain`: the result of each stage, its spec, the "
    "model directory of its training (`train/`) and its report (`report.md`, `report.html`).",
}

# Below the folder of one export.
EXPORT: Mapping[str, str] = {
    "saved_model.pb": "The graph and the signatures.",
    "fingerprint.pb": "TensorFlow's fingerprint of the SavedModel.",
    "variables/<file>": "The weights.",
    "assets/<file>": "Vocabulary files.",
    "assets.extra/feature_spec/**": "The feature spec and the files that it names.",
    "assets.extra/flags.txt": "Every flag of the training, as a flagfile.",
    "assets.extra/metrics.json": "The metrics of the checkpoint.",
    "assets.extra/signature_features.json": "The features that each signature needs in a record.",
    "assets.extra/lineage.json": "Checkpoint, step, files and versions, and how the export was "
    "checked.",
    "assets.extra/retraining.json": "The cycle of `--mode=retrain` that made the export.",
    "assets.extra/tf_serving_warmup_requests": "One request for each signature, made from real "
    "rows. TensorFlow Serving sends them to itself before it takes requests.",
    "client_examples/<file>": "Clients (`curl.sh`, `predict_grpc.py`) and their requests, made "
    "from a real row.",
}


def meaning_of(path: str, files: Mapping[str, str] = MODEL_DIR) -> Optional[str]:
    """What a file is; None if no pattern fits it."""
    return next((text for pattern, text in files.items() if _fits(pattern, path)), None)


def _fits(pattern: str, path: str) -> bool:
    parts = re.split(r"(<\w+>|\*\*)", pattern)
    forms = {"**": ".+"}
    text = "".join(
        forms.get(part, "[^/]+") if i % 2 else re.escape(part) for i, part in enumerate(parts)
    )
    return re.fullmatch(text, path) is not None
