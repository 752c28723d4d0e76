"""Which settings do not go together. Imports no TensorFlow.

    problems_of(config)      all problems; each is one line that says what to do

A setting on its own is checked by its type, and the rules of one area stand in its module in
`areas`. This module has the rules between settings of many areas. Which settings a mode needs is in
the table of modes.
"""

from __future__ import annotations

import itertools

from estimator_kit.config.areas import (
    AllSettings,
    analysis,
    cluster,
    conversion,
    data,
    exports,
    looking,
    monitoring,
    prediction,
    reading,
    retraining,
    serving,
    tables,
    training,
    transforming,
    tuning,
    watching,
)
from estimator_kit.config.areas.program import TRAINING_MODES
from estimator_kit.config.modes import MODES, by_name, missing_settings

_FILES = (
    "train_files",
    "eval_files",
    "predict_files",
    "baseline",
    "convert_files",
)

_WRITE_FILES = "Write the rows to files with ek.write_examples, and use --train_files"

# Modes that work on files, which other modes read again or compare.
_OF_FILES = ("tune", "retrain", "analyze", "check_data")

_WHY = {
    "train_files": "Give one of them",
    "train_mix": "Give one of them",
    "keep_negatives": f"A draw needs the file of each row. {_WRITE_FILES}",
    "input_cache_dir": f"A cache needs files to compare. {_WRITE_FILES}",
    "data_service": f"Its workers do not run your code. {_WRITE_FILES}",
}


def problems_of(config: AllSettings) -> list[str]:
    """All problems of a config; none if the list is empty."""
    return [
        *missing_settings(config),
        *transforming.problems(config, config, config, config),
        *analysis.problems(config, config, config),
        *conversion.problems(config, config, config, config),
        *tables.problems(config, config),
        *_length_problems(config),
        *training.problems(config, config, config),
        *training.warm_start_problems(config, config),
        *watching.problems(config, config),
        *cluster.data_service_problems(config, config),
        *_service_problems(config),
        *cluster.problems(config, config),
        *_cluster_problems(config),
        *serving.problems(config, config),
        *prediction.problems(config, config, config),
        *retraining.problems(config, config, config, config),
        *monitoring.problems(config, config),
        *_decided_problems(config),
        *exports.problems(config, config),
        *tuning.problems(config, config, config, config),
        *looking.problems(config, config, config),
        *reading.problems(config),
        *_data_problems(config),
        *_own_input_problems(config),
    ]


def _length_problems(config: AllSettings) -> list[str]:
    trains = config.mode in (*TRAINING_MODES, "retrain") and config.cycle is None
    if not trains or training.has_length(config):
        return []
    if config.mode == "train_and_evaluate" and config.eval_files and config.input_fn is None:
        return []  # It trains until evaluations stop improving.
    return [
        "--max_steps and --epochs are missing. Give at least one of them, so that training ends. "
        "Only --mode=train_and_evaluate with --train_files and --eval_files needs neither: it "
        "trains until --best_metric stops improving."
    ]


def _cluster_problems(config: AllSettings) -> list[str]:
    if config.mode in TRAINING_MODES and config.strategy is not None:
        return unfit(config, f"--strategy={config.strategy}")
    return []


def _decided_problems(config: AllSettings) -> list[str]:
    if config.cycle is not None:  # It has its own flags.
        return []
    return [
        f"--{name} does not go with --mode={config.mode}. {remedy}"
        for name, remedy in by_name(MODES[config.mode].decides).items()
        if getattr(config, name) not in (None, (), "")
    ]


def _data_problems(config: AllSettings) -> list[str]:
    lines = [
        f"--{field}: got an empty name. Remove it."
        for field in _FILES
        if "" in getattr(config, field)
    ]
    selection = data.problems(config)
    if config.mode in TRAINING_MODES and not selection:
        selection = _overlap_problems(config)
    return lines + selection


def _own_input_problems(config: AllSettings) -> list[str]:
    """What does not go together with `--input_fn`."""
    if config.input_fn is None:
        if config.input_version is not None:
            return ["--input_version names the rows of --input_fn, which is missing. Give both."]
        return []
    if config.mode in _OF_FILES:
        return [
            f"--input_fn does not go with --mode={config.mode}, which reads files. {_WRITE_FILES}."
        ]
    if config.mode not in (*TRAINING_MODES, "evaluate"):
        return []
    trains = config.mode in TRAINING_MODES
    if not trains and config.eval_files:
        return []
    fields = _WHY if trains else ("input_cache_dir",)
    lines = [
        f"--input_fn and --{field} do not go together. {_WHY[field]}."
        for field in fields
        if (config.named_cache if field == "input_cache_dir" else getattr(config, field))
    ]
    if config.corrupt_data_policy != "fail":
        lines.append(
            f"--corrupt_data_policy={config.corrupt_data_policy} leaves out records of files. "
            "Leave out bad rows in the function of --input_fn, and remove the flag."
        )
    return lines


def _overlap_problems(config: AllSettings) -> list[str]:
    evaluated = [*config.judging_files, *itertools.chain(*config.other_sets.values())]
    shared = set(config.patterns_of("train")) & set(config.of_days(evaluated, "eval"))
    if not shared:
        return []
    return [
        f"--train_files and --eval_files share {', '.join(sorted(shared))}. Evaluate a model on "
        "files that it is not trained on."
    ]


def _service_problems(config: AllSettings) -> list[str]:
    if config.data_service is None or config.mode not in TRAINING_MODES:
        return []
    lines = []
    why = "does not go with --data_service"
    if config.deterministic:
        lines.append(
            f"--deterministic {why}, because its workers read the files in a different order each "
            "time. Remove one of the two."
        )
    if not config.shuffle:
        lines.append(
            f"--noshuffle {why}, because its workers read the files in no fixed order. Remove one "
            "of the two."
        )
    if config.named_cache:
        lines.append(
            f"--input_cache_dir {why}, because the workers transform the rows and keep none. "
            "Remove one of the two."
        )
    if config.train_mix:
        lines.append(
            f"--train_mix {why}, because one process must read all parts of a mix to keep their "
            "shares. Use --train_files, or remove --data_service."
        )
    if config.corrupt_data_policy == "skip_record":
        lines.append(
            f"--corrupt_data_policy=skip_record {why}: only Python code can read damaged files, "
            "and the workers do not run it. Use quarantine, which leaves such files out."
        )
    return lines


def unfit(config: AllSettings, what: str) -> list[str]:
    """Settings that need one process with one device."""
    lines = []
    if config.data_service is not None:
        lines.append(
            f"--data_service does not go with {what}, where each task that trains reads its own "
            "share of the files. Remove one of the two."
        )
    if config.deterministic:
        lines.append(
            f"--deterministic does not go with {what}, where sums depend on which task is first. "
            "Remove one of the two."
        )
    if config.profile:
        lines.append(
            f"--profile does not go with {what}. Profile a run in one process, which reads its "
            "input in the same way."
        )
    if config.xla == "on":
        lines.append(
            f"--xla=on does not go with {what}: it is for a training in one process with one "
            "device. Remove one of the two."
        )
    if config.named_cache:
        lines.append(f"--input_cache_dir does not go with {what}. Remove one of the two.")
    if config.train_mix:
        lines.append(
            f"--train_mix does not go with {what}, because one process must read all parts of a "
            "mix to keep their shares. Use --train_files."
        )
    return lines
