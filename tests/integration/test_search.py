"""A search as processes: killed in the middle of a trial, it goes on; two processes share it."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from tests.conftest import ROOT, make_rows
from tests.programs import run

pytest.importorskip("optuna", reason="the extra tune")

# `estimator_kit/tuning` has faster tests of kills, owners and results.
pytestmark = pytest.mark.nightly

LIMIT = 1200  # Seconds after which a process that hangs fails its test.

SEARCH = """\
metric: auc/click
direction: max
trials: 3
pruner: none
parameters:
  learning_rate: {range: [0.01, 0.5], log: true}
  hidden_units: {choice: [[8], [8, 4]]}
"""


@pytest.fixture(scope="module")
def searched(ads, once):
    """A search that was killed in the middle of trial 0, and that two processes have finished.

    Returns its folder, its command, what trial 0 had left, and what the two processes printed.
    """
    folder = once("searched", lambda folder: search(ads, folder))
    left, printed = json.loads((folder / "seen.json").read_text())
    return folder, command_of(folder), left, printed


def command_of(folder):
    return ["tune", f"--flagfile={folder}/x.flags", f"--search={folder}/search.yaml",
            f"--model_dir={folder}/found"]  # fmt: skip


def search(ads, folder):
    from input_pipelines.record_files import writing

    writing.write_examples(str(folder / "test.tfrecord"), make_rows(100, seed=11))
    (folder / "search.yaml").write_text(SEARCH)
    (folder / "x.flags").write_text(
        f"--spec={ads}/spec.yaml\n--train_files={ads}/train-*\n--eval_files={ads}/eval.tfrecord\n"
        f"--test_files={folder}/test.tfrecord\n--batch_size=50\n--max_steps=40\n"
        "--save_checkpoints_steps=10\n--deterministic\n--exporters=\n"
        "--model=tests.integration.saving_model:SavingModel\n"
    )
    command = command_of(folder)
    trials = folder / "found" / "trials"
    trials.mkdir(parents=True)
    (trials / "pause").write_text("20")
    first = start(command)
    try:
        wait_for(trials / "paused", first)
        child = int(json.loads((trials / "0000" / "lock.json").read_text())["pid"])
    finally:
        first.kill()
    first.communicate(timeout=LIMIT)
    wait_until_gone(child)
    (trials / "pause").unlink()
    left = json.loads((trials / "0000" / "result.json").read_text())
    both = [start(command), start(command)]
    try:
        printed = [process.communicate(timeout=LIMIT)[0] for process in both]
    finally:
        for process in both:
            process.kill()
    # One that starts after the end of the other finds nothing to do.
    codes = [process.returncode for process in both]
    assert sorted(codes) in ([0, 0], [0, 99]), printed
    (folder / "seen.json").write_text(json.dumps([left, printed]))


def start(command):
    return subprocess.Popen(
        [sys.executable, "run.py", *command],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def program(*arguments):
    done = run(ROOT, *arguments)
    assert done.returncode == 0, done.stderr


def wait_for(path: pathlib.Path, process: subprocess.Popen) -> None:
    end = time.monotonic() + LIMIT
    while not path.exists():
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            raise AssertionError(process.communicate(timeout=LIMIT)[0])
        time.sleep(0.02)


def wait_until_gone(pid: int) -> None:
    """A trial must not outlive its search."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":  # It has ended, and nobody asked for its status.
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} still runs")


def document(folder):
    return json.loads((folder / "found" / "search.json").read_text())


def test_the_killed_trial_goes_on_and_no_trial_runs_twice(searched):
    folder, _, left, printed = searched
    assert left["status"] == "running"
    trials = document(folder)["trials"]
    assert [(trial["trial"], trial["state"]) for trial in trials] == [
        ("0000", "done"), ("0001", "done"), ("0002", "done")
    ]  # fmt: skip
    lines = "".join(printed).splitlines()
    assert sum("trial 0000 goes on" in line for line in lines) == 1
    for number, starts in (("0000", 2), ("0001", 1), ("0002", 1)):
        # Each of them ended in one process, and was begun as often as it had to be.
        assert sum(f"trial {number}: auc/click" in line for line in lines) == 1
        log = (folder / "found" / "trials" / number / "log.txt").read_text()
        assert log.count("finished: --max_steps=40 is reached") == 1
        events = list((folder / "found" / "trials" / number).glob("events.out.tfevents.*"))
        assert len([path for path in events if not path.name.endswith(".last")]) >= starts


def test_the_flags_of_a_trial_give_its_metric_again(searched, tmp_path):
    """Also of the trial that was killed: it ended as an undisturbed one."""
    folder, _, _, _ = searched
    (value,) = [t["value"] for t in document(folder)["trials"] if t["trial"] == "0000"]
    flags = folder / "found" / "trials" / "0000" / "trial.flags"
    program(f"--flagfile={flags}", f"--model_dir={tmp_path}/again")
    assert max(aucs(tmp_path / "again").values()) == value


def aucs(model_dir):
    """The metric of each evaluation, by its step."""
    lines = map(json.loads, (model_dir / "eval_history.jsonl").read_text().splitlines())
    return {line["global_step"]: line["metrics"]["auc/click"] for line in lines}


def test_the_best_settings_are_trained_on_all_rows_and_scored_once(searched, tmp_path):
    """Up to the step of the best evaluation, with an export to serve."""
    folder, _, _, _ = searched
    found = document(folder)
    assert found["best"]["value"] == max(trial["value"] for trial in found["trials"])
    values = aucs(folder / "found" / "trials" / found["best"]["trial"])
    step = min(step for step, value in values.items() if value == found["best"]["value"])
    flags = folder / "found" / "best.flags"
    assert f"--model_dir={folder}/found/best\n" in flags.read_text()
    program(f"--flagfile={flags}", "--report=off", f"--model_dir={tmp_path}/best")
    for best in (tmp_path / "best", folder / "found" / "best"):
        result = json.loads((best / "result.json").read_text())
        assert result["global_step"] == step
        assert result["metrics"]["auc/click"] == found["test"]["value"]
        assert result["metrics"]["rows"] == 100
    assert found["test"]["trial"] == found["best"]["trial"]
    assert not (folder / "found" / "cache").exists()


def test_what_the_last_lines_name_exists(searched):
    folder, _, _, printed = searched
    found = document(folder)
    best = found["best"]
    for text in filter(lambda text: "nothing to do" not in text, printed):
        lines = text.splitlines()
        wanted = "finished: 3 trials: all 3 trials are made"
        at = next(i for i, line in enumerate(lines) if line == wanted)
        assert lines[at + 1].startswith(
            f"best: trial {best['trial']}, auc/click {best['value']:.5f} (learning_rate="
        )
        assert lines[at + 2] == (
            "trained on the files of training and evaluation, its auc/click on --test_files is "
            f"{found['test']['value']:.5f}"
        )
        left = [line for line in lines[at + 3 :] if not line.startswith("export to serve")]
        assert left[0] == f"best flags: {folder}/found/best.flags"
        assert lines[-1].startswith("TensorBoard: ")
        assert f"tensorboard --logdir={folder}/found/trials" in lines[-1]
    # Exactly one of the two has scored the test files.
    assert sum("scoring it on --test_files" in text for text in printed) >= 1
    page = folder / "found" / "search.html"
    if any("no report page" in text for text in printed):
        assert not page.exists()
    else:
        assert "Parallel coordinates" in page.read_text()


def test_a_search_that_has_ended_does_nothing(searched):
    _, command, _, _ = searched
    done = run(ROOT, *command)
    assert done.returncode == 99
    assert (
        "the search has ended with 3 trials: all 3 trials are made. Raise `trials`, `seconds`"
        in done.stderr
    )
    done = run(ROOT, *command, "--batch_size=25")
    assert done.returncode == 2
    assert "  --batch_size: was 50, is 25\n" in done.stderr


def test_tensorboard_shows_each_trial_with_its_parameters(searched):
    """The page HParams, by TensorBoard's own code."""
    event_multiplexer = pytest.importorskip(
        "tensorboard.backend.event_processing.plugin_event_multiplexer",
        reason="the extra tensorboard",
    )
    from tensorboard.backend.event_processing import data_provider
    from tensorboard.context import RequestContext
    from tensorboard.plugins import base_plugin
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

    folder, _, _, _ = searched
    multiplexer = event_multiplexer.EventMultiplexer(
        tensor_size_guidance={"hparams": 100}, purge_orphaned_data=False
    )
    multiplexer.AddRunsFromDirectory(str(folder / "found" / "trials"))
    multiplexer.Reload()
    provider = data_provider.MultiplexerDataProvider(multiplexer, str(folder))
    context = backend_context.Context(base_plugin.TBContext(data_provider=provider))
    request = RequestContext()
    content = context.hparams_metadata(request, "")
    experiment = context.experiment_from_metadata(request, "", True, content, None)
    names = {info.name for info in experiment.hparam_infos}
    assert {"model_params/learning_rate", "model_params/hidden_units"} == names
    asked = api_pb2.ListSessionGroupsRequest(slice_size=10)
    asked.allowed_statuses.append(api_pb2.STATUS_SUCCESS)
    groups = list_session_groups.Handler(request, context, "", asked).run()
    shown = {
        group.sessions[0].name: group.hparams["model_params/learning_rate"].number_value
        for group in groups.session_groups
    }
    wanted = {
        f"{trial['trial']}/eval": trial["parameters"]["learning_rate"]
        for trial in document(folder)["trials"]
    }
    assert shown == pytest.approx(wanted)
    assert tf.io.gfile.exists(str(folder / "found" / "trials" / "0000" / "eval"))


def test_a_trial_whose_loss_is_nan_is_a_failed_trial(ads, tmp_path):
    (tmp_path / "search.yaml").write_text(
        "metric: auc/click\ndirection: max\ntrials: 2\npruner: none\nsampler: random\nseed: 2\n"
        "parameters:\n  learning_rate: {choice: [0.1, 1e38]}\n"
    )
    done = run(
        ROOT, "tune", f"--spec={ads}/spec.yaml", f"--train_files={ads}/train-*", "--report=off",
        f"--eval_files={ads}/eval.tfrecord", "--batch_size=50", "--max_steps=20", "--exporters=",
        f"--search={tmp_path}/search.yaml", f"--model_dir={tmp_path}/found",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "finished: 2 trials, 1 failed: all 2 trials are made\n" in done.stdout
    trials = json.loads((tmp_path / "found" / "search.json").read_text())["trials"]
    by_rate = {trial["parameters"]["learning_rate"]: trial for trial in trials}
    failed, good = by_rate[1e38], by_rate[0.1]
    assert (failed["state"], failed["value"], good["state"]) == ("failed", None, "done")
    assert "NaN" in failed["reason"] or "infinite" in failed["reason"]
    assert f"trial {failed['trial']}: failed: " in done.stderr
