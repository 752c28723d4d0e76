"""Compares the behavior of two checkouts: the demo's numbers, and the texts of bad command lines.

    cd before && python ../after/tools/same_behavior.py record /tmp/before.json
    cd after  && python tools/same_behavior.py record /tmp/after.json
    python tools/same_behavior.py compare /tmp/before.json /tmp/after.json

`record` runs the program of the working directory: a short deterministic training of the demo,
whose variables, exported signatures and result.json it keeps, and the command lines of `BAD`, whose
exit status and messages it keeps. `compare` lists the differences, and exits with status 1 if there
are any.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

SPEC = "--spec=feature_specs/catalog/ads.yaml"
TRAIN = [SPEC, "--model_dir=m", "--train_files=a", "--eval_files=b", "--max_steps=1"]

# Command lines that are refused before anything except flags and spec is read.
BAD = [
    [],
    ["--modle=train"],
    ["--mode=trian"],
    ["--spec=nowhere.yaml", "--mode=validate"],
    [SPEC],
    [*TRAIN, "--batch_size=0"],
    [*TRAIN, "--batch_size=many"],
    [*TRAIN, "--seed=99999999999999999999"],
    [*TRAIN, "--epochs=-1"],
    [*TRAIN, "--exporters=best,bets"],
    [*TRAIN, "--exporters=best,best"],
    [*TRAIN, "--exporters=step"],
    [*TRAIN, "--best_metric=auc/click"],
    [*TRAIN, "--early_stopping_metric=auc/click"],
    [*TRAIN, "--save_checkpoints_steps=1", "--save_checkpoints_secs=1"],
    [*TRAIN, "--max_bad_records=1"],
    [*TRAIN, "--input_cache_gib=1"],
    [*TRAIN, "--train_days=yesterday"],
    [*TRAIN, "--train_mix=a=1"],
    [*TRAIN, "--warm_start_vars=("],
    [*TRAIN, "--warm_start_rename=a"],
    [*TRAIN, "--strategy=sync_replicas"],
    [*TRAIN, "--backup_workers=1"],
    [*TRAIN, "--worker_hosts=a:1"],
    [*TRAIN, "--launch_local=worker:1"],
    [*TRAIN, "--data_service=host:1"],
    [*TRAIN, "--model=no_such_model"],
    [*TRAIN, "--model_params=hidden_unit=[8]"],
    [*TRAIN, "--eval_files=a"],
    ["--mode=convert", "--convert_files=a", "--convert_dir=b", "--split_key=k"],
    ["--mode=analyze", "--train_files=a"],
    ["--mode=serve"],
    ["--mode=serve", "--serving_models=a=b", "--serving_labels=a:x=1,a:y=2"],
    ["--mode=retrain", SPEC, "--model_dir=m", "--train_files=a", "--max_steps=1"],
    ["--mode=rollback", "--model_dir=m"],
    ["--mode=predict", SPEC, "--predict_files=a", "--predict_dir=d"],
    ["--mode=transform", "--export_dir=e", "--transform=onnx"],
    ["--mode=inspect"],
]

# Lines that TensorFlow's C++ code logs, with the time.
_OF_TENSORFLOW = re.compile(r"WARNING: All log messages before|[IWE]\d{4} |[IWE]0000 |To enable ")

# Entries that differ between two runs of the same program.
_VOLATILE = {"examples_per_second", "exports", "export_path", "input_cache"}


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "run.py", *arguments], capture_output=True, text=True, check=False
    )


def _demo(folder: str) -> dict[str, object]:
    done = _run(
        "--flagfile=exp.flags", f"--model_dir={folder}", "--max_steps=200", "--epochs=1",
        "--save_checkpoints_steps=100", "--deterministic",
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    import tensorflow as tf

    checkpoint = tf.train.latest_checkpoint(folder)
    variables = {
        name: hashlib.sha256(tf.train.load_variable(checkpoint, name).tobytes()).hexdigest()
        for name, _ in sorted(tf.train.list_variables(checkpoint))
    }
    with open(os.path.join(folder, "result.json"), encoding="utf-8") as file:
        result = json.load(file)
    inspected = _run("--mode=inspect", f"--export_dir={result['export_path']}").stdout
    result = {key: value for key, value in result.items() if key not in _VOLATILE}
    result["exports"] = sorted(os.listdir(os.path.join(folder, "export")))
    signatures = [line for line in inspected.splitlines() if ":" in line and folder not in line]
    return {"variables": variables, "result": result, "export": signatures}


def record(path: str) -> None:
    """Writes the behavior of the program in the working directory."""
    with tempfile.TemporaryDirectory() as folder:
        kept: dict[str, object] = {"demo": _demo(os.path.join(folder, "run"))}
    for arguments in BAD:
        done = _run(*arguments)
        errors = [line for line in done.stderr.splitlines() if not _OF_TENSORFLOW.match(line)]
        kept[" ".join(arguments)] = [done.returncode, done.stdout, errors]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(kept, file, indent=1)
    print(f"{path}: the demo and {len(BAD)} bad command lines")


def compare(first: str, second: str) -> int:
    """Prints the differences, and returns how many there are."""
    read = []
    for path in (first, second):
        with open(path, encoding="utf-8") as file:
            read.append(json.load(file))
    before, after = read
    pairs = {key: (before.get(key), after.get(key)) for key in {**before, **after}}
    for part in before["demo"]:
        pairs[f"demo: {part}"] = (before["demo"][part], after["demo"][part])
    del pairs["demo"]
    different = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
    for key, (old, new) in different.items():
        print(f"{key}\n  before: {json.dumps(old)[:2000]}\n  after:  {json.dumps(new)[:2000]}")
    print(f"{len(pairs) - len(different)} of {len(pairs)} are equal")
    return len(different)


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(sys.argv[2])
    else:
        sys.exit(min(compare(sys.argv[2], sys.argv[3]), 1))
