"""The trials of a search: which exist, who runs them, and what came out. All processes share them.

    study = SearchStudy("runs/search", search, flags)
    claim = study.claim()                         # a trial for this process alone, or None
    study.report(claim, rows=4096, value=0.71)    # whether to end the trial early
    study.finish(claim, "done", value=0.74)

The trials are in Optuna's journal, `search.journal`, a file that needs no database. Three locks
keep several processes apart, and the kernel releases each of them when its process dies:

- the lock of the folder of the search is held while a process counts trials and makes the next one,
  so that all processes together make exactly `trials` trials;
- the lock `owner` in the folder of a trial is held while a process runs this trial;
- the lock of the trial's model directory is held by the training itself.

A trial that is running in the journal and that nobody owns was left behind by a process that died.
The next claim takes it, and its training goes on from its checkpoint.

What trial n draws depends on the seed, on n and on the trials before it, and not on the process. So
a search in one process draws the same after a kill. Imports no TensorFlow; Optuna is the extra
`tune`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import statistics
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, Optional

from estimator_kit.errors import ConfigError, Locked
from estimator_kit.tuning import definition
from estimator_kit.tuning.definition import changes
from estimator_kit.tuning.search_file import Search
from estimator_kit.tuning.space import Values, draw, trial_dir
from feature_specs.files import owners

JOURNAL = "search.journal"

# The name of the study in the journal. Hyperband draws its brackets from it.
_NAME = "search"

# The pruner `median` ends no trial before as many have finished.
_FEWEST_TO_PRUNE = 5

# A search of a few minutes has few trials, and one that learns slowly would take much of its time.
# So `auto` prunes after fewer trials, but no trial before its third evaluation.
_FEWEST_OF_AUTO, _FIRST_EVALUATION_OF_AUTO = 2, 3

# After this many trials that all failed for the same reason, no other settings will help.
_HOPELESS = 4

# Seconds between two attempts to take the lock of the search, which others hold for milliseconds.
_RETRY_SECS = 0.05

State = Literal["running", "done", "pruned", "failed"]


@dataclasses.dataclass(frozen=True)
class Trial:
    """What the journal says of a trial.

    Attributes:
      number: its number, from 0.
      state: how it ended, or `running`.
      values: what it drew.
      value: the metric of its best evaluation. None if it has none.
      seconds: how long it took, over all starts.
      reason: why it failed, else "".
      evaluations: the best value so far by the rows that were trained on before.
    """

    number: int
    state: State
    values: Values
    value: Optional[float]
    seconds: float
    reason: str
    evaluations: Mapping[int, float]


@dataclasses.dataclass
class Claim:
    """A trial that this process runs.

    Attributes:
      number: its number.
      values: what it drew.
      resumed: whether another process has begun it.
      seconds: how long it took before this claim.
      reported: the rows of the last evaluation in the journal; -1 before the first one.
      best: the best value so far, or None.
    """

    number: int
    values: Values
    resumed: bool
    seconds: float
    reported: int
    best: Optional[float]
    trial: Any
    owner: contextlib.ExitStack


class SearchStudy:
    """The trials of a search. Opens the journal, or begins it.

    Args:
      model_dir: the folder of the search.
      search: what is searched.
      flags: the settings that all trials share.
      stale_secs: see `owners.held`.

    Raises:
      ConfigError: the search or the flags differ from those that the journal began with, or the
        journal is damaged.
      MissingPackageError: Optuna is not installed.
    """

    def __init__(
        self,
        model_dir: str,
        search: Search,
        flags: Mapping[str, Any],
        *,
        stale_secs: float = owners.STALE_SECS,
    ):
        self._optuna = definition.optuna()
        # Optuna's lock of the journal is a link to it. With a relative path, the link would lead
        # nowhere, and a process would wait forever for a lock that a killed process left.
        self._model_dir = os.path.abspath(model_dir)
        self.search = search
        self._stale_secs = stale_secs
        self._path = os.path.join(self._model_dir, JOURNAL)
        with self.locked():
            self._study = self._open(flags)
            self._check_same(flags)
        self._ended_before = self.ended()

    def _open(self, flags: Mapping[str, Any]) -> Any:
        storages = self._optuna.storages
        try:
            backend = storages.journal.JournalFileBackend(self._path)
            self._storage = storages.JournalStorage(backend)
            return self._optuna.create_study(
                storage=self._storage,
                study_name=_NAME,
                load_if_exists=True,
                direction="maximize" if self.search.maximizes else "minimize",
                pruner=definition.pruner(self.search, flags),
            )
        except (ValueError, KeyError) as error:
            raise ConfigError(
                f"{self._path} is damaged: {error}. Remove the line that is not JSON, or begin a "
                "new search in another --model_dir."
            ) from error

    def _check_same(self, flags: Mapping[str, Any]) -> None:
        """Compares the search with what the journal began with; stores it if it begins now."""
        document = self.search.model_dump(
            mode="json", by_alias=True, exclude={"trials", "seconds", "patience"}
        )
        now = {"search": document, "flags": json.loads(json.dumps(flags))}
        before = self._study.user_attrs.get("definition")
        if before is None:
            self._study.set_user_attr("definition", now)
            return
        differences = changes(before, now)
        if differences:
            listing = "\n".join(f"  {change}" for change in differences)
            raise ConfigError(
                f"the search in {self._model_dir} began with other settings:\n{listing}\n"
                "Its trials could not be compared. Go back to the old settings, or begin a new "
                "search in another --model_dir. Only `trials`, `seconds` and `patience` may change."
            )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock of the search. Waits for it."""
        with contextlib.ExitStack() as stack:
            while True:
                try:
                    stack.enter_context(owners.held(self._model_dir, stale_secs=self._stale_secs))
                    break
                except Locked:
                    time.sleep(_RETRY_SECS)
            yield

    # --- Trials ---------------------------------------------------------------------------------

    def trials(self) -> list[Trial]:
        """All trials, by number."""
        return [self._record(each) for each in self._study.get_trials(deepcopy=False)]

    def best(self) -> Optional[Trial]:
        """The trial with the best metric, and the earlier one of two equal ones; or None."""
        done = [trial for trial in self.trials() if trial.state == "done"]
        sign = -1 if self.search.maximizes else 1
        return min(done, key=lambda trial: sign * (trial.value or 0.0), default=None)

    def is_full(self) -> bool:
        """Whether no further trial begins. Trials may still be running."""
        return self.end_reason() is not None

    def end_reason(self) -> Optional[str]:
        """Why no further trial begins, or None if one does."""
        trials, search = self.trials(), self.search
        ended = [trial for trial in trials if trial.state != "running"]
        # A new start tries again, because a full disk, for example, may have been mended.
        if len(ended) - self._ended_before >= _HOPELESS and all(
            trial.state == "failed" for trial in ended
        ):
            if len({re.sub(r"[\d.]+", "", trial.reason) for trial in ended}) == 1:
                return f"the first {len(ended)} trials have all failed, for the same reason"
        if search.trials is not None and len(trials) >= search.trials:
            return f"all {search.trials} trials are made"
        spent = self.spent()
        if search.seconds is not None and spent >= search.seconds:
            return f"the trials have taken {spent:,.0f} of {search.seconds:,.0f} seconds"
        over = self._study.user_attrs.get("over")
        if search.budget is not None and over is not None and over["budget"] >= search.budget:
            return str(over["reason"])
        since = self.since_best()
        if search.patience is not None and since >= search.patience:
            return f"no improvement in {since} trials"
        return None

    def end(self, reason: str) -> None:
        """Stores that the time of the search is over, for later starts."""
        self._study.set_user_attr("over", {"budget": self.search.budget, "reason": reason})

    def since_best(self) -> int:
        """How many trials have ended since the best one began; 0 without one."""
        best = self.best()
        if best is None:
            return 0
        return sum(t.number > best.number and t.state != "running" for t in self.trials())

    def spent(self) -> float:
        """The seconds that all trials have taken together."""
        return sum(trial.seconds for trial in self.trials())

    def ended(self) -> int:
        """How many trials have ended."""
        return sum(trial.state != "running" for trial in self.trials())

    def running(self) -> list[int]:
        """The numbers of the trials that are running, here or elsewhere."""
        return [trial.number for trial in self.trials() if trial.state == "running"]

    @property
    def optuna_study(self) -> Any:
        """Optuna's object, for its figures."""
        return self._study

    def _record(self, frozen: Any) -> Trial:
        states: dict[str, State] = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
        attrs = frozen.user_attrs
        return Trial(
            number=frozen.number,
            state=states.get(frozen.state.name, "running"),
            values=attrs.get("values", {}),
            value=self._value(frozen),
            seconds=attrs.get("seconds", 0.0),
            reason=attrs.get("reason", ""),
            evaluations=dict(frozen.intermediate_values),
        )

    def _value(self, frozen: Any) -> Optional[float]:
        # A failed trial has no value in the journal, and a pruned one its last report.
        values = [*frozen.intermediate_values.values()]
        if frozen.value is not None:
            values.append(frozen.value)
        return self.search.best_of(values) if values else None

    # --- Claims ---------------------------------------------------------------------------------

    def claim(self, mine: Collection[int] = ()) -> Optional[Claim]:
        """A trial to run: one that a dead process left behind, or else a new one.

        Args:
          mine: the trials that this process runs.

        Returns None if all trials exist and every one that is running has an owner.
        """
        with self.locked():
            for number in self.running():
                owner = None if number in mine else self._owner(number)
                if owner is not None:
                    return self._claimed(number, owner, resumed=True)
            if self.is_full():
                return None
            number = len(self.trials())
            # Before the trial is in the journal, because a running trial must have an owner.
            owner = self._owner(number)
            if owner is None:
                return None
            self._study.sampler = definition.sampler(self.search, number)
            self._study.ask()
            return self._claimed(number, owner, resumed=False)

    def _owner(self, number: int) -> Optional[contextlib.ExitStack]:
        """Takes a trial; None if another process runs it."""
        folder = trial_dir(self._model_dir, number)
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(
                    owners.held(os.path.join(folder, "owner"), stale_secs=self._stale_secs)
                )
                # Where a child outlives its parent, its training still holds this lock.
                with owners.held(folder, stale_secs=self._stale_secs):
                    pass
            except Locked:
                return None
            return stack.pop_all()
        raise AssertionError

    def _claimed(self, number: int, owner: contextlib.ExitStack, *, resumed: bool) -> Claim:
        frozen = self._study.get_trials(deepcopy=False)[number]
        if resumed:
            self._study.sampler = definition.sampler(self.search, number)
        study_id = self._storage.get_study_id_from_name(_NAME)
        trial_id = self._storage.get_trial_id_from_study_id_trial_number(study_id, number)
        trial = self._optuna.trial.Trial(self._study, trial_id)
        values = frozen.user_attrs.get("values")
        if values is None:
            values = draw(self.search, trial)
            trial.set_user_attr("values", values)
        values_by_step = frozen.intermediate_values
        reported, best = max(values_by_step, default=-1), self._value(frozen)
        seconds = frozen.user_attrs.get("seconds", 0.0)
        return Claim(number, values, resumed, seconds, reported, best, trial, owner)

    def report(self, claim: Claim, *, rows: int, value: float, seconds: float) -> bool:
        """Stores an evaluation. Returns whether to end the trial.

        Args:
          claim: the trial.
          rows: how many rows the trial had trained on. Trials are compared at equal rows, because
            their batches may have other sizes. Rows that are already stored change nothing.
          value: the metric.
          seconds: how long this claim has taken.
        """
        if rows > claim.reported:
            claim.reported = rows
            claim.best = value if claim.best is None else self.search.best_of([claim.best, value])
            claim.trial.report(claim.best, rows)
            claim.trial.set_user_attr("seconds", claim.seconds + seconds)
        if self.search.pruner == "median":
            return claim.best is not None and self._is_behind(claim.number, claim.best, rows)
        return bool(claim.trial.should_prune())

    def _is_behind(self, number: int, value: float, rows: int) -> bool:
        """Whether a value is worse than the median of what the finished trials had by then.

        Their batches may have other sizes, so a trial had the value of its last evaluation of at
        most as many rows. A trial without one is left out.
        """
        others, trials = [], self.trials()
        fewest = _FEWEST_TO_PRUNE
        if self.search.budget is not None:
            fewest = _FEWEST_OF_AUTO
            if len(trials[number].evaluations) < _FIRST_EVALUATION_OF_AUTO:
                return False
        for trial in trials:
            earlier = [each for each in trial.evaluations if each <= rows]
            if trial.state == "done" and earlier:
                others.append(trial.evaluations[max(earlier)])
        if len(others) < fewest:
            return False
        median = statistics.median(others)
        return value < median if self.search.maximizes else value > median

    def finish(
        self,
        claim: Claim,
        state: State,
        *,
        seconds: float,
        value: Optional[float] = None,
        reason: str = "",
    ) -> None:
        """Stores how a trial ended, and gives it up."""
        states = self._optuna.trial.TrialState
        state_of = {"done": states.COMPLETE, "pruned": states.PRUNED, "failed": states.FAIL}
        claim.trial.set_user_attr("seconds", claim.seconds + seconds)
        if reason:
            claim.trial.set_user_attr("reason", reason)
        final = value if state == "done" else None
        assert final is None or math.isfinite(final)
        self._study.tell(claim.number, final, state=state_of[state])
        claim.owner.close()

    def release(self, claim: Claim) -> None:
        """Gives a trial up that goes on later."""
        claim.owner.close()
