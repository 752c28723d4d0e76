"""search: the loop that starts, watches, prunes and records trials, with trials that are fakes."""

from __future__ import annotations

import logging
import signal

import pytest

from estimator_kit.errors import ConfigError, Stopped
from estimator_kit.exit_codes import Signalled
from estimator_kit.tuning import search_file
from estimator_kit.tuning.search import Outcome, SearchLoop
from estimator_kit.tuning.study import SearchStudy

pytest.importorskip("optuna", reason="the extra tune")

pytestmark = pytest.mark.no_tensorflow


def study_of(folder, **changes):
    document = {
        "metric": "auc/click", "direction": "max", "trials": 4,
        "parameters": {"rate": {"range": [0, 1]}}, **changes,
    }  # fmt: skip
    return SearchStudy(str(folder), search_file.parse(document), {})


class Now(Signalled):
    """An event whose `wait` does not wait; it is set by itself after some calls."""

    def __init__(self, after=10_000, number=signal.SIGTERM):
        super().__init__()
        self.left, self.after = after, number
        self.clock = 0.0

    def wait(self, timeout=None):
        self.clock += timeout
        self.left -= 1
        if self.left < 0:
            self.number = self.after
            self.set()
        return self.is_set()


class FakeRun:
    """A trial that shows one more evaluation at each look, and then ends."""

    def __init__(self, values, outcome):
        self.values, self.final = values, outcome
        self.looks = self.stops = self.kills = 0

    def evaluations(self):
        return [(10 * (i + 1), value) for i, value in enumerate(self.values[: self.looks])]

    def outcome(self):
        if self.stops or self.kills:
            return Outcome("stopped")
        self.looks += 1
        return self.final if self.looks > len(self.values) else None

    def stop(self):
        self.stops += 1

    def kill(self):
        self.kills += 1


def loop_of(study, runs, *, processes=1, ended=None, time_left=None):
    """A loop whose trials are `runs(number)`, and what it has started."""
    started = {}
    ended = ended or Now()

    def start(claim):
        started.setdefault(claim.number, []).append(runs(claim.number))
        return started[claim.number][-1]

    loop = SearchLoop(
        study, start, processes=processes, ended=ended, time_left=time_left,
        clock=lambda: ended.clock,
    )  # fmt: skip
    return loop, started


def test_all_trials_run_and_one_that_fails_is_not_the_end(tmp_path, caplog):
    study = study_of(tmp_path)

    def runs(number):
        if number == 1:
            return FakeRun([], Outcome("failed", reason="the loss is NaN at step 3\nmore"))
        return FakeRun([0.5, 0.6], Outcome("done", 0.6 + number / 100))

    loop, started = loop_of(study, runs)
    with caplog.at_level(logging.INFO, logger="estimator_kit"):
        loop.run()
    assert sorted(started) == [0, 1, 2, 3]
    assert [(t.state, t.value) for t in study.trials()] == [
        ("done", 0.6), ("failed", None), ("done", 0.62), ("done", 0.63)
    ]  # fmt: skip
    assert study.trials()[1].reason == "the loss is NaN at step 3\nmore"
    assert study.trials()[0].evaluations == {10: 0.5, 20: 0.6}
    assert study.trials()[0].seconds == 1.5  # Three looks, half a second apart.
    lines = [record.getMessage() for record in caplog.records if "trial 0" in record.getMessage()]
    assert lines == [
        "trial 0000: auc/click 0.60000, 2 s; best 0.60000 (trial 0000)",
        "trial 0001: failed: the loss is NaN at step 3, 0 s; best 0.60000 (trial 0000)",
        "trial 0002: auc/click 0.62000, 2 s; best 0.62000 (trial 0002)",
        "trial 0003: auc/click 0.63000, 2 s; best 0.63000 (trial 0003)",
    ]


def test_several_trials_run_at_the_same_time(tmp_path):
    study = study_of(tmp_path)
    at_work, most = set(), []

    class Counted(FakeRun):
        def outcome(self):
            found = super().outcome()
            at_work.add(self)
            most.append(len(at_work))
            if found is not None:
                at_work.discard(self)
            return found

    loop, _ = loop_of(study, lambda _: Counted([0.5] * 3, Outcome("done", 0.5)), processes=2)
    loop.run()
    assert max(most) == 2
    assert [t.state for t in study.trials()] == ["done"] * 4


class Deaf(FakeRun):
    """A trial that ignores the request to stop."""

    def stop(self):
        pass


@pytest.mark.parametrize(
    ("kind", "looks", "pruner", "state", "stops", "kills"),
    [
        (FakeRun, 5, "median", "pruned", 1, 0),
        (FakeRun, 5, "none", "done", 0, 0),
        (Deaf, 1000, "median", "pruned", 0, 1),
    ],
)
def test_a_bad_trial_is_stopped_or_killed(tmp_path, kind, looks, pruner, state, stops, kills):
    study = study_of(tmp_path, trials=7, pruner=pruner)

    def runs(number):
        if number == 6:
            return kind([0.5] * looks, Outcome("done", 0.5))
        return FakeRun([0.7] * 5, Outcome("done", 0.7))

    loop, started = loop_of(study, runs)
    loop.run()
    assert [t.state for t in study.trials()] == ["done"] * 6 + [state]
    last = study.trials()[6]
    assert last.value == 0.5 and (last.evaluations == {10: 0.5}) == (stops == 1)
    assert (started[6][0].stops, min(1, started[6][0].kills)) == (stops, kills)


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, Stopped), (signal.SIGINT, KeyboardInterrupt)]
)
def test_after_a_signal_the_same_trial_goes_on(tmp_path, number, error):
    study = study_of(tmp_path)
    loop, started = loop_of(
        study, lambda _: FakeRun([0.5] * 4, Outcome("done", 0.5)), ended=Now(after=7, number=number)
    )
    with pytest.raises(error):
        loop.run()
    assert study.running() == [1]  # It took five looks at trial 0.
    assert started[1][0].stops == 1
    study = study_of(tmp_path)
    loop, started = loop_of(study, lambda _: FakeRun([0.5] * 4, Outcome("done", 0.5)))
    loop.run()
    assert sorted(started) == [1, 2, 3]
    assert [t.state for t in study.trials()] == ["done"] * 4


def test_when_the_time_is_over_a_trial_ends_with_its_best_evaluation(tmp_path):
    study = study_of(tmp_path, trials=None, seconds=1000)
    study.search.lasting(60.0)
    runs = {0: FakeRun([0.5], Outcome("done", 0.5)), 1: FakeRun([0.7, 0.6] * 200, None)}
    loop, started = loop_of(study, runs.__getitem__, time_left=60.0)
    loop.run()
    assert sorted(started) == [0, 1]
    assert [(t.state, t.value) for t in study.trials()] == [("done", 0.5), ("done", 0.7)]
    assert (runs[1].stops, runs[1].kills) == (0, 1)
    assert study.end_reason() == "60 seconds are over"
    again = study_of(tmp_path, trials=None, seconds=1000)
    again.search.lasting(120.0)
    assert again.end_reason() is None  # It has been given more time.


def test_when_the_time_is_over_before_the_first_evaluation_the_search_waits_for_it(tmp_path):
    class Slow(FakeRun):
        def evaluations(self):
            return super().evaluations() if self.looks > 6 else []

    study = study_of(tmp_path, trials=None, seconds=1000)
    runs = {0: Slow([0.5] * 9, Outcome("done", 0.5)), 1: Slow([], None)}
    loop, started = loop_of(study, runs.__getitem__, processes=2, time_left=1.0)
    loop.run()
    assert sorted(started) == [0, 1]
    assert [(run.looks, run.kills) for run in runs.values()] == [(7, 1), (7, 1)]
    assert [(t.state, t.value) for t in study.trials()] == [("done", 0.5), ("pruned", None)]


def test_a_trial_that_ends_while_the_search_stops_counts(tmp_path):
    study = study_of(tmp_path)

    class Quick(FakeRun):
        def outcome(self):
            return Outcome("done", 0.9) if self.stops else None

    with pytest.raises(Stopped):
        loop_of(study, lambda _: Quick([], None), ended=Now(after=1))[0].run()
    assert [(t.state, t.value) for t in study.trials()] == [("done", 0.9)]


def test_the_search_waits_for_the_trials_of_others_and_takes_over_those_of_the_dead(
    tmp_path, caplog
):
    study, other = study_of(tmp_path), study_of(tmp_path)
    claims = [other.claim(), other.claim()]

    class Ends(Now):
        def wait(self, timeout=None):
            if study.trials()[-1].state == "done" and study.running() == [0, 1]:
                other.finish(claims[0], "done", value=0.4, seconds=1.0)
                other.release(claims[1])  # As if its process had died.
            return super().wait(timeout)

    loop, started = loop_of(study, lambda _: FakeRun([0.5], Outcome("done", 0.5)), ended=Ends())
    with caplog.at_level(logging.INFO, logger="estimator_kit"):
        loop.run()
    assert sorted(started) == [1, 2, 3]
    assert [t.value for t in study.trials()] == [0.4, 0.5, 0.5, 0.5]
    lines = [record.getMessage() for record in caplog.records]
    assert "waits for the trials of other processes: 0000, 0001" in lines
    assert "trial 0001 goes on: the process that ran it has ended" in lines


def test_an_error_of_a_start_leaves_the_trial_to_the_next_search(tmp_path):
    study = study_of(tmp_path)

    def broken(claim):
        raise OSError("no process")

    loop = SearchLoop(study, broken, processes=1, ended=Now())
    with pytest.raises(OSError, match="no process"):
        loop.run()
    assert study.claim().number == 0


def test_values_that_do_not_go_together_are_a_failed_trial(tmp_path):
    """The checks before the first trial cannot try all combinations."""
    study, started = study_of(tmp_path), []

    def start(claim):
        if claim.number == 1:
            raise ConfigError("--max_steps and --epochs are missing")
        started.append(claim.number)
        return FakeRun([0.5], Outcome("done", 0.5))

    SearchLoop(study, start, processes=1, ended=Now()).run()
    assert started == [0, 2, 3]
    trial = study.trials()[1]
    assert (trial.state, trial.reason) == ("failed", "--max_steps and --epochs are missing")
