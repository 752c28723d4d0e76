"""The program as a user starts it: exit statuses, flagfiles, kills, and the SavedModel alone.

Tests about processes (printed tables, signals, imports, statuses) start processes. All other tests
call `main` in this process.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from input_pipelines.record_files import writing
from tests.conftest import ROOT, make_rows
from tests.programs import run

LIMIT = 240  # Seconds after which a process that hangs fails its test.


@pytest.fixture
def flagfile(ads, tmp_path):
    path = tmp_path / "exp.flags"
    path.write_text(
        textwrap.dedent(f"""\
            # A small experiment.
            --spec={ads}/spec.yaml
            --train_files={ads}/train-*
            --eval_files={ads}/eval.tfrecord
            --predict_files={ads}/eval.tfrecord
            --model_dir={tmp_path}/model
            --model_params=hidden_units=[8]
            --batch_size=50
            --max_steps=20
            --save_checkpoints_steps=20
            --exporters=final
            """)
    )
    return str(path)


def program(*arguments: str, **kwargs) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(ROOT / "run.py"), *arguments],
        capture_output=True, text=True, timeout=LIMIT, check=False, **kwargs,
    )  # fmt: skip


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "run.py"), *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip


def wait_for_line(process: subprocess.Popen, pattern: str) -> None:
    """Reads the program's lines until one matches."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if re.search(pattern, line):
            return
    raise AssertionError(f"no line matches {pattern!r} in\n{''.join(seen)}")


@pytest.mark.nightly
def test_the_log_of_a_run_is_one_line_an_evaluation_and_can_be_json(flagfile, tmp_path):
    more = ["--max_steps=40", "--save_checkpoints_steps=20", "--log_every_secs=1000"]
    time_ = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    done = program(f"--flagfile={flagfile}", *more)
    assert done.returncode == 0, done.stderr
    for line, expected in itertools.zip_longest(
        done.stderr.splitlines(),
        [
            rf"{time_} training: 40 steps",
            rf"{time_} step 20 evaluated: \S+ \d\.\d{{4}}, \S+ \d\.\d{{4}}, \d+\.\d s",
            rf"{time_} step 40 evaluated: \S+ \d\.\d{{4}}.*, \d+\.\d s",
            rf"{time_} train: step 40 of 40, loss \d\.\d{{5}}, [\d,]+ examples/s, 0:00 left",
        ],
    ):
        assert re.fullmatch(expected or "nothing", line or "no line")
    json_ = program(
        f"--flagfile={flagfile}", *more, f"--model_dir={tmp_path}/json", "--log_format=json"
    )
    lines = [json.loads(line) for line in (json_.stderr + json_.stdout).splitlines()]
    evaluated = [line for line in lines if line.get("phase") == "evaluate"]
    assert [line["step"] for line in evaluated] == [20, 40]
    kept = json.loads((tmp_path / "json/result.json").read_text())
    assert evaluated[-1]["metrics"]["loss"] == kept["metrics"]["loss"]
    wrong = program(f"--flagfile={flagfile}", "--log_format=json", "--batch_size=0")
    (error,) = map(json.loads, wrong.stderr.splitlines())
    assert (wrong.returncode, error["level"]) == (2, "error") and "batch_size" in error["message"]


@pytest.mark.nightly
def test_a_run_prints_its_table_and_a_query_that_works(flagfile, tmp_path):
    done = program(f"--flagfile={flagfile}")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^metric +click +buy$", done.stdout, re.M)
    assert re.search(r"^auc +[01]\.\d{4} +[01]\.\d{4}$", done.stdout, re.M)
    assert "finished: --max_steps=20 is reached (step 20)" in done.stdout
    lines = done.stdout.splitlines()
    assert lines[-2].startswith("report: ") and lines[-1].startswith("TensorBoard: ")
    (command,) = [line.strip() for line in lines if "--mode=predict" in line]
    interpreter, script, *arguments = shlex.split(command)
    assert (pathlib.Path(interpreter).name, script) == (
        pathlib.Path(sys.executable).name, str(ROOT / "run.py"),
    )  # fmt: skip
    asked = run(tmp_path, *arguments)
    assert asked.returncode == 0, asked.stderr
    rows = [json.loads(line) for line in asked.stdout.splitlines()]
    assert len(rows) == 3 and 0 < rows[0]["click/logistic"] < 1
    assert run(tmp_path, f"--flagfile={flagfile}").returncode == 99


def test_a_flag_overrides_the_flagfile_wherever_it_stands(flagfile, tmp_path):
    other = tmp_path / "other"
    done = run(tmp_path, f"--model_dir={other}", f"--flagfile={flagfile}", "--mode=train")
    assert done.returncode == 0, done.stderr
    assert (other / "checkpoint").exists() and not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--batch_size=x"], 2, "error: flag --batch_size=x: invalid literal for int()"),
        pytest.param(
            ["--train_files=README.md"],
            65,
            "error: README.md: record 0 at byte 0: the checksum",
            marks=pytest.mark.ci,
        ),
        (["--model=tests.integration.broken_model:Wrong", "--model_params="], 2,
         "broken_model.py:10: Wrong.logits: ZeroDivisionError: division by zero."),
        (["--model=tests.integration.broken_model:Broken", "--model_params="], 70, "Traceback"),
    ],
)  # fmt: skip
def test_the_program_ends_with_the_status_of_what_is_wrong(
    flagfile, tmp_path, arguments, code, message
):
    done = program(f"--flagfile={flagfile}", *arguments, cwd=ROOT)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert ("Traceback" in done.stderr) == (code == 70)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--modle=train"], 2, "error: unknown flag --modle. Did you mean 'mode"),
        (["--batch_size=0"], 2, "error: --batch_size: expected at least 1, got 0."),
        (["--noshuffle=1"], 2, "error: --noshuffle=1 does not take an argument. Remove the value."),
        (["train"], 2, "error: 'train' is not a flag. Write a mode as the first word."),
        (["--model_params=hidden_unit=[8]"], 2,
         "error: model WideDeepModel: unknown parameter 'hidden_unit'. Did you mean 'hidden_uni"),
        (["--train_files=/nowhere/*"], 65, "error: no file matches '/nowhere/*' of --train_files"),
        (["--train_files=README.md"], 65, "error: README.md: record 0 at byte 0: the checksum of "),
        (["--eval_files=README.md"], 65, "error: README.md: record 0 at byte 0: the checksum of "),
        (["--spec=/nowhere.yaml"], 2, "error: /nowhere.yaml: 1 problem in the feature spec"),
        (["--best_metric=auc", "--exporters=best"], 2,
         "error: --best_metric=auc: the model has no such metric. Did you mean 'auc/buy'?"),
    ],
)  # fmt: skip
def test_bad_input_has_its_status_and_message(flagfile, tmp_path, arguments, code, message):
    done = run(ROOT, f"--flagfile={flagfile}", *arguments)
    assert done.returncode == code
    assert message in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "model").exists()


def test_a_flagfile_that_would_not_mean_what_it_says(flagfile, tmp_path):
    path = pathlib.Path(flagfile)
    path.write_text(path.read_text() + "--seed=1 # the answer\n--model='dnn'\n")
    done = run(tmp_path, f"--flagfile={flagfile}")
    assert done.returncode == 2
    assert done.stderr == (
        f"error: {flagfile}:12: '--seed=1 # the answer': a comment after a value becomes part of "
        "the value. Write it on its own line.\n"
        f"{flagfile}:13: \"--model='dnn'\": quotes become part of the value. Remove them.\n"
    )


def test_help_teaches():
    done = program("--help")
    assert done.returncode == 0
    for text in ("--flagfile=exp.flags", "train_and_evaluate", "rollback", "--helpfull"):
        assert text in done.stdout
    done = program("--helpfull")
    for text in ("65  bad data", "--warm_start_from", "after a checkpoint"):
        assert text in done.stdout


def test_validating_a_spec_needs_no_tensorflow(ads):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(ROOT / "run.py"), "--mode=validate",
         f"--spec={ads}/spec.yaml"],
        capture_output=True, text=True, timeout=LIMIT, check=True,
    )  # fmt: skip
    imported = re.findall(r"\| +([\w.]+)$", done.stderr, re.M)
    assert "feature_specs.parser.parser" in imported and "estimator_kit.main" in imported
    assert not [name for name in imported if name.split(".")[0] in ("tensorflow", "numpy")]
    assert "the spec and the flags are correct" in done.stdout


# test_unfinished.py has an evaluation that SIGTERM breaks off.
@pytest.mark.parametrize(
    "when", ["training", pytest.param("evaluating", marks=pytest.mark.nightly)]
)
def test_sigterm_saves_a_checkpoint(flagfile, tmp_path, when):
    arguments = [f"--flagfile={flagfile}", "--max_steps=1000000", "--log_every_secs=0.01"]
    if when == "evaluating":
        model = "tests.integration.terminated_model:TerminatedInEvaluation"
        arguments += [f"--model={model}", "--model_params=", "--eval_batch_size=10"]
    else:
        arguments += ["--save_checkpoints_steps=500000"]
    process = start(*arguments)
    if when == "training":
        wait_for_line(process, r" train: step \d+ of")
        process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 143, errors
    assert "stopped by SIGTERM; the checkpoint is saved" in errors
    result = json.loads((tmp_path / "model" / "result.json").read_text())
    assert (result["status"], result["stop_reason"]) == ("stopped", "sigterm")
    assert result["global_step"] > 0
    assert not result["metrics"]
    assert (tmp_path / "model" / f"model.ckpt-{result['global_step']}.index").exists()


@pytest.mark.nightly  # test_corrupt_data.py and test_restarts.py have faster restarts.
def test_killed_and_started_again_it_ends_as_it_would_have(flagfile, tmp_path):
    long = [f"--flagfile={flagfile}", "--max_steps=150", "--log_every_secs=0.01"]
    process = start(*long)
    wait_for_line(process, r" train: step (2[1-9]|[3-9]\d|\d{3}) of")
    process.kill()
    process.communicate(timeout=LIMIT)
    killed_at = json.loads((tmp_path / "model" / "result.json").read_text())
    assert killed_at["status"] == "running"
    done = run(tmp_path, *long)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "model" / "result.json").read_text())
    assert (result["global_step"], result["stop_reason"]) == (150, "max_steps")
    assert 0 < result["rows_trained"] < 150 * 50
    history = (tmp_path / "model" / "eval_history.jsonl").read_text().splitlines()
    steps = [json.loads(line)["global_step"] for line in history]
    assert steps == sorted(set(steps)) and steps[-1] == 150
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "model").rglob("*")}
    again = run(tmp_path, *long)
    assert again.returncode == 99
    assert "nothing to do:" in again.stderr
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "model").rglob("*")} == before


BARE = """
import json, sys
import tensorflow as tf
export, records, ours = sys.argv[1:]
examples = [r.numpy() for r in tf.data.TFRecordDataset(records)]
predict = tf.saved_model.load(export).signatures["serving_default"]
one = predict(examples=tf.constant(examples[:1]))
all_rows = predict(examples=tf.constant(examples))
assert not [m for m in sys.modules if m.split(".")[0] in
            ("estimator_kit", "feature_specs", "input_pipelines")]
assert len(examples) == 1000
json.dump({k: [one[k].numpy().ravel().tolist(), v.numpy().ravel().tolist()]
           for k, v in all_rows.items() if v.dtype != tf.string}, open(ours, "w"))
"""


@pytest.mark.nightly
def test_the_saved_model_alone_predicts_what_predict_does(flagfile, tmp_path):
    records = str(tmp_path / "thousand.tfrecord")
    rows = make_rows(1000, seed=4)
    writing.write_examples(records, rows)
    assert run(tmp_path, f"--flagfile={flagfile}").returncode == 0
    asked = run(tmp_path, f"--flagfile={flagfile}", "--mode=predict", f"--predict_files={records}",
                    f"--predict_output={tmp_path}/out/predictions.jsonl")  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    lines = (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()
    expected = [json.loads(line) for line in lines]
    (export,) = (tmp_path / "model" / "export" / "final").iterdir()
    shutil.move(str(export), str(tmp_path / "elsewhere"))
    bare = tmp_path / "bare"
    bare.mkdir()
    output = bare / "got.json"
    subprocess.run(
        [sys.executable, "-I", "-c", BARE, str(tmp_path / "elsewhere"), records, str(output)],
        cwd=bare, check=True, timeout=LIMIT,
    )  # fmt: skip
    got = json.loads(output.read_text())
    assert "click/logistic" in got and "buy/probabilities" in got
    for name, (one, thousand) in got.items():
        want = np.array([row[name] for row in expected], float)
        np.testing.assert_allclose(thousand, want.ravel(), atol=1e-6, err_msg=name)
        np.testing.assert_allclose(one, want[:1].ravel(), atol=1e-6, err_msg=name)
    # A TFRecord of predictions holds the same.
    asked = run(tmp_path, f"--flagfile={flagfile}", "--mode=predict",
                f"--predict_files={records}", f"--predict_output={tmp_path}/p.tfrecord",
                "--predict_limit=10")  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    import tensorflow as tf

    written = list(tf.data.TFRecordDataset(f"{tmp_path}/p.tfrecord").as_numpy_iterator())
    first = tf.train.Example.FromString(written[0]).features.feature
    assert len(written) == 10
    assert first["click/logistic"].float_list.value[0] == pytest.approx(
        expected[0]["click/logistic"], abs=1e-6
    )
    wrong = run(tmp_path, f"--flagfile={flagfile}", "--mode=predict", "--predict_output=p.csv")
    assert wrong.returncode == 2
    assert "unknown suffix. Use one of: .jsonl, .tfrecord, .tfrecord.gz." in wrong.stderr
