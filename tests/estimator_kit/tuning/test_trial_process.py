"""trial_process: how a trial ended, from its exit status, its files and its log."""

from __future__ import annotations

import pytest

import estimator_kit as ek
from estimator_kit.checkpoints.scores_meaning import ScoresMeaning
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.observing.histories import EvaluationHistory
from estimator_kit.tuning import search_file, trial_process
from estimator_kit.tuning.search import Outcome
from estimator_kit.tuning.trial_process import ProgramRun, TrialRun, reason_of


class FakeProcess:
    """A process that has ended with a status."""

    def __init__(self, code):
        self.code = code

    def status(self):
        return self.code

    def reason(self, code):
        return f"reason of {code}"

    def stop(self):
        pass

    kill = stop


def run_of(folder, code):
    config = ExperimentConfig(
        mode="train", spec="s", model_dir=str(folder), train_files="t", epochs=1, batch_size=50
    )
    document = {
        "metric": "auc/click", "direction": "max", "trials": 1,
        "parameters": {"rate": {"range": [0, 1]}},
    }  # fmt: skip
    return TrialRun(FakeProcess(code), config, search_file.parse(document))


@pytest.mark.parametrize(
    ("code", "values", "outcome"),
    [
        (None, [], None),
        (0, [0.5, 0.75, 0.625], Outcome("done", 0.75)),  # The best evaluation, not the last one.
        (99, [0.75], Outcome("done", 0.75)),  # It had finished before.
        (143, [0.75], Outcome("stopped")),
        (-15, [], Outcome("stopped")),  # Before its training began.
        (65, [0.75], Outcome("failed", reason="reason of 65")),
        (75, [], Outcome("failed", reason="reason of 75")),
        (-9, [], Outcome("failed", reason="reason of -9")),
        (
            0, [float("nan")],
            Outcome("failed", reason="auc/click is undefined in all its evaluations"),
        ),
        (0, [], Outcome("failed", reason="auc/click is undefined in all its evaluations")),
    ],
)  # fmt: skip
def test_how_a_trial_ended(tmp_path, code, values, outcome):
    history, meaning = EvaluationHistory(str(tmp_path)), ScoresMeaning("a", "a", {})
    for i, value in enumerate(values):
        history.add(10 * (i + 1), {"auc/click": value}, meaning)
    assert run_of(tmp_path, code).outcome() == outcome


def test_evaluations_come_with_their_rows(tmp_path):
    run = run_of(tmp_path, None)
    assert run.evaluations() == []
    history, meaning = EvaluationHistory(str(tmp_path)), ScoresMeaning("a", "a", {})
    history.add(10, {"auc/click": 0.5, "loss": 1.0}, meaning)
    history.add(20, {"auc/click": float("nan"), "loss": 1.0}, meaning)  # No clicks: undefined.
    history.add(30, {"auc/click": 0.625, "loss": 1.0}, meaning)
    assert run.evaluations() == [(500, 0.5), (1500, 0.625)]


def test_the_reason_is_what_the_program_printed(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text(
        "error: of an earlier start\n2026 train: step 3\nerror: the loss is NaN\n  at 4\n"
    )
    assert reason_of(65, str(log)) == "the loss is NaN\n  at 4"
    log.write_text("Traceback\nValueError: a bug\n")
    assert reason_of(70, str(log)) == "exit status 70: ValueError: a bug"
    log.write_text("")
    assert reason_of(70, str(log)) == "exit status 70: it printed nothing"
    assert reason_of(-9, str(log)) == (
        "SIGKILL ended its process. The machine may be out of memory."
    )
    assert reason_of(-11, str(log)) == "SIGSEGV ended its process."


def test_a_process_runs_a_flagfile_and_writes_its_log(tmp_path, monkeypatch):
    """Without the program itself, which would need seconds."""
    monkeypatch.setattr(
        trial_process.launcher,
        "command",
        lambda arguments: ["sh", "-c", f"cat {arguments[0][11:]}"],
    )
    config = ExperimentConfig(
        mode="train", spec="s", model_dir=str(tmp_path / "trial"), train_files="t", epochs=1
    )
    flags, log = tmp_path / "trial" / "trial.flags", tmp_path / "trial" / "log.txt"
    for _ in range(2):
        run = ProgramRun(config, str(flags), str(log))
        while run.status() is None:
            pass
        assert run.status() == 0
        run.stop()
        run.kill()  # It has ended: nothing happens.
    assert log.read_text() == 2 * flags.read_text()
    assert "--train_files=t\n" in flags.read_text()
    assert isinstance(config, ek.ExperimentConfig)
