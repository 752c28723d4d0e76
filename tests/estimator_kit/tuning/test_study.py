"""study: trials in a journal that several processes share, claims, and what a kill leaves."""

from __future__ import annotations

import json
import multiprocessing

import pytest

from estimator_kit.errors import ConfigError
from estimator_kit.tuning import definition, search_file
from estimator_kit.tuning.study import SearchStudy

pytest.importorskip("optuna", reason="the extra tune")

pytestmark = pytest.mark.no_tensorflow

DOCUMENT = {
    "metric": "auc/click",
    "direction": "max",
    "trials": 4,
    "parameters": {
        "learning_rate": {"range": [0.01, 0.5], "log": True},
        "hidden_units": {"choice": [[64], [64, 32]]},
    },
}


def study_of(folder, flags=None, **changes):
    return SearchStudy(str(folder), search_file.parse({**DOCUMENT, **changes}), flags or {})


def finish(study, claim, value):
    study.finish(claim, "done", value=value, seconds=1.0)


def test_exactly_as_many_trials_as_the_file_says(tmp_path):
    study = study_of(tmp_path)
    claims = [study.claim() for _ in range(4)]
    assert [claim.number for claim in claims] == [0, 1, 2, 3]
    assert study.claim() is None
    assert study.running() == [0, 1, 2, 3]
    for claim, value in zip(claims, (0.5, 0.7, 0.6, 0.7)):
        finish(study, claim, value)
    assert study.best().number == 1  # The earlier one of two equal ones.
    assert study.running() == []


def test_what_a_trial_draws_is_kept_as_it_goes_into_the_flags(tmp_path):
    study = study_of(tmp_path)
    claim = study.claim()
    assert claim.values["hidden_units"] in ([64], [64, 32])
    assert 0.01 <= claim.values["learning_rate"] <= 0.5
    assert study_of(tmp_path).trials()[0].values == claim.values


def test_a_trial_that_is_left_behind_goes_on_and_one_with_an_owner_does_not(tmp_path):
    first = study_of(tmp_path)
    claim = first.claim()
    first.report(claim, rows=10, value=0.6, seconds=2.5)
    other = study_of(tmp_path)
    taken = other.claim()
    assert (taken.number, taken.resumed) == (1, False)  # Trial 0 has an owner.
    first.release(claim)  # As if its process had died.
    again = other.claim()
    assert (again.number, again.resumed, again.reported) == (0, True, 10)
    assert (again.values, again.seconds) == (claim.values, 2.5)
    other.report(again, rows=10, value=0.1, seconds=1.0)  # Known: changes nothing.
    other.report(again, rows=20, value=0.7, seconds=1.0)
    other.finish(again, "done", value=0.7, seconds=2.0)
    trial = first.trials()[0]
    assert (trial.state, trial.value, trial.seconds) == ("done", 0.7, 4.5)
    assert trial.evaluations == {10: 0.6, 20: 0.7}


def test_the_next_trial_draws_the_same_after_a_kill(tmp_path):
    """A search that is interrupted proposes what an undisturbed one proposes."""
    drawn = {}
    for name, kill in (("undisturbed", False), ("killed", True)):
        study = study_of(tmp_path / name, trials=14)
        for number in range(14):  # TPE begins after ten trials.
            claim = study.claim()
            drawn.setdefault(name, []).append(claim.values)
            if kill and number in (3, 12):
                study.release(claim)
                study = study_of(tmp_path / name, trials=14)
                again = study.claim()
                assert (again.number, again.values) == (number, claim.values)
                claim = again
            finish(study, claim, 1 - abs(claim.values["learning_rate"] - 0.1))
    assert drawn["undisturbed"] == drawn["killed"]
    assert len({each["learning_rate"] for each in drawn["killed"]}) == 14


def test_another_seed_draws_other_values(tmp_path):
    values = [study_of(tmp_path / str(seed), seed=seed).claim().values for seed in (1, 2)]
    assert values[0] != values[1]


def test_a_kill_between_the_trial_and_its_values(tmp_path):
    """The journal has the trial, but not what it drew."""
    study = study_of(tmp_path)
    study.optuna_study.sampler = definition.sampler(study.search, 0)
    study.optuna_study.ask()
    claim = study.claim()
    assert (claim.number, claim.resumed) == (0, True)
    assert claim.values == study_of(tmp_path / "undisturbed").claim().values


def work(folder, results):
    study = study_of(folder, trials=12)
    while (claim := study.claim()) is not None:
        results.put((claim.number, claim.values["learning_rate"]))
        finish(study, claim, 0.5)


def test_three_processes_make_each_trial_once(tmp_path):
    study_of(tmp_path, trials=12)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=work, args=(tmp_path, results)) for _ in range(3)]
    for process in processes:
        process.start()
    found = [results.get(timeout=120) for _ in range(12)]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert sorted(number for number, _ in found) == list(range(12))
    assert len({rate for _, rate in found}) == 12  # No two processes draw alike.
    assert results.empty()


def test_more_trials_may_be_asked_for_later(tmp_path):
    study = study_of(tmp_path, trials=1)
    finish(study, study.claim(), 0.5)
    assert study.claim() is None
    assert study_of(tmp_path, trials=2).claim().number == 1


def test_seconds_count_the_time_of_all_trials(tmp_path):
    study = study_of(tmp_path, trials=None, seconds=10)
    study.finish(study.claim(), "done", value=0.5, seconds=6.0)
    claim = study.claim()
    study.finish(claim, "failed", reason="the loss is NaN", seconds=4.0)
    assert study.claim() is None
    assert study_of(tmp_path, trials=None, seconds=11).claim().number == 2
    assert study.trials()[1].reason == "the loss is NaN"


def test_a_search_that_changed_is_refused(tmp_path):
    study_of(tmp_path, {"max_steps": 100})
    changed = {
        **DOCUMENT["parameters"],
        "learning_rate": {"range": [0.01, 0.9], "log": True},
        "clip_norm": {"range": [1, 5]},
    }
    del changed["hidden_units"]
    with pytest.raises(ConfigError) as error:
        study_of(tmp_path, {"max_steps": 200}, parameters=changed, seed=2)
    assert str(error.value).split("\n") == [
        f"the search in {tmp_path} began with other settings:",
        "  seed: was 1, is 2",
        '  parameters.learning_rate: was {"range": [0.01, 0.5], "log": true}, is {"range": '
        '[0.01, 0.9], "log": true}',
        '  parameters.hidden_units: was {"choice": [[64], [64, 32]]}, is absent',
        '  parameters.clip_norm: was absent, is {"range": [1, 5]}',
        "  --max_steps: was 100, is 200",
        "Its trials could not be compared. Go back to the old settings, or begin a new search in "
        "another --model_dir. Only `trials`, `seconds` and `patience` may change.",
    ]


def test_a_damaged_journal_is_named(tmp_path):
    study_of(tmp_path)
    journal = tmp_path / "search.journal"
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join([lines[0][:-9], *lines[1:], ""]))
    with pytest.raises(ConfigError, match=r"search\.journal is damaged: .* Remove the line"):
        study_of(tmp_path)


def test_a_lock_of_the_journal_that_a_kill_left_is_taken_over(tmp_path, monkeypatch):
    """Optuna's lock is a link. It must lead to the journal, also if the folder is relative."""
    monkeypatch.chdir(tmp_path)
    study = study_of("search")
    lock = study._storage._backend._lock
    lock.acquire()
    link = tmp_path / "search" / "search.journal.lock"
    assert link.is_symlink() and link.exists()
    lock.release()


def test_the_median_pruner_ends_a_bad_trial(tmp_path):
    study = study_of(tmp_path, trials=9)
    for _ in range(6):  # It compares from the sixth trial on.
        claim = study.claim()
        study.report(claim, rows=10, value=0.7, seconds=1.0)
        finish(study, claim, 0.7)
    claim = study.claim()
    assert not study.report(claim, rows=10, value=0.8, seconds=1.0)
    study.release(claim)
    claim = study.claim()
    assert study.report(claim, rows=5, value=0.5, seconds=1.0) is False  # Nothing to compare with.
    finish(study, claim, 0.8)
    claim = study.claim()
    assert study.report(claim, rows=10, value=0.6, seconds=1.0) is True
    study.finish(claim, "pruned", seconds=2.0)
    trial = study.trials()[claim.number]
    assert (trial.state, trial.value) == ("pruned", 0.6)
    assert json.dumps(trial.evaluations) == '{"10": 0.6}'


def test_a_search_with_little_time_prunes_after_two_trials_at_the_third_evaluation(tmp_path):
    study = study_of(tmp_path, trials=9)
    study.search.lasting(60.0)
    for value in (0.7, 0.8):
        claim = study.claim()
        study.report(claim, rows=10, value=value, seconds=1.0)
        finish(study, claim, value)
    claim = study.claim()
    values = [(10, 0.5), (20, 0.6), (30, 0.74)]  # The median is 0.75.
    pruned = [study.report(claim, rows=r, value=v, seconds=1.0) for r, v in values]
    assert pruned == [False, False, True]
    study.finish(claim, "pruned", seconds=2.0)


def test_the_best_evaluation_so_far_is_compared_also_of_other_batch_sizes(tmp_path):
    study = study_of(tmp_path, trials=6)
    for i in range(5):  # At 12 rows they have 0.71, 0.72, 0.73, 0.74 and 0.75.
        claim = study.claim()
        study.report(claim, rows=10, value=0.71 + i / 100, seconds=1.0)
        study.report(claim, rows=20, value=0.3, seconds=1.0)
        finish(study, claim, 0.71 + i / 100)
    assert study.trials()[4].evaluations == {10: 0.75, 20: 0.75}
    claim = study.claim()
    assert study.report(claim, rows=12, value=0.735, seconds=1.0) is False  # The median is 0.73.
    assert study.report(claim, rows=24, value=0.1, seconds=1.0) is False  # It has had 0.735.
    study.finish(claim, "pruned", seconds=2.0)
    assert study.trials()[5].value == 0.735


def test_a_search_ends_when_trials_bring_no_improvement(tmp_path):
    study = study_of(tmp_path, trials=None, patience=2)
    for value in (0.5, 0.7, 0.6):
        finish(study, study.claim(), value)
    assert study.end_reason() is None
    study.finish(study.claim(), "failed", reason="the loss is NaN", seconds=1.0)
    assert study.end_reason() == "no improvement in 2 trials"
    assert study.claim() is None
    assert study_of(tmp_path, trials=4).end_reason() == "all 4 trials are made"


def test_the_first_trials_have_the_values_of_the_file(tmp_path):
    first = [{"learning_rate": 0.05, "hidden_units": [64, 32]}, {"hidden_units": [64]}]
    study = study_of(tmp_path / "a", first=first)
    claims = [study.claim() for _ in range(3)]
    assert claims[0].values == first[0]
    assert claims[1].values["hidden_units"] == [64]
    usual = study_of(tmp_path / "b")
    others = [usual.claim() for _ in range(3)]
    # What an entry leaves out is drawn, and the later trials are as without it.
    assert claims[1].values["learning_rate"] != 0.05
    assert claims[2].values == others[2].values
    for claim in claims:
        study.release(claim)
    for claim in others:
        usual.release(claim)


def test_a_search_ends_when_all_trials_fail_for_the_same_reason(tmp_path):
    study = study_of(tmp_path, trials=9)
    for step in range(4):
        assert study.end_reason() is None
        claim = study.claim()
        study.finish(claim, "failed", seconds=1.0, value=None, reason=f"auc: step {step} has none")
    assert study.end_reason() == "the first 4 trials have all failed, for the same reason"
    assert study_of(tmp_path, trials=9).end_reason() is None  # The reason may be gone.
