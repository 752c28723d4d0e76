"""Canaries: they are never live by themselves, and a promotion is all or nothing."""

from __future__ import annotations

import logging
import os
import types

import pytest

from estimator_kit.config.modes import ToVersion
from estimator_kit.errors import ConfigError, Locked
from estimator_kit.monitoring import rollback
from estimator_kit.monitoring.baselines import Baselines
from estimator_kit.retraining import (
    canaries,
    cycle_files,
    cycle_versions,
    gate_stage,
    modes,
    retention,
    stages,
)
from estimator_kit.retraining.gate_stage import Judged
from estimator_kit.retraining.lineage import AsCanary, Data, Lineage, Parent, Spec
from estimator_kit.retraining.promotion import Serving
from estimator_kit.retraining.vocabularies import Vocabularies
from feature_specs.files import versions
from feature_specs.parser import parser
from tests.conftest import DOCUMENT
from tests.estimator_kit.retraining import reports


class Model:
    """A model directory whose cycles pass the gate and are published, without training."""

    def __init__(self, folder, monkeypatch):
        self.folder = str(folder / "model")
        self.export = str(folder / "export")
        os.makedirs(self.export)
        with open(os.path.join(self.export, "saved_model.pb"), "w") as file:
            file.write("x")
        monkeypatch.setattr(modes, "loads", lambda path: None)
        monkeypatch.setattr(gate_stage, "verify", lambda *arguments: lambda path: None)
        monkeypatch.setattr(parser, "load", lambda path, stored: None)

    @property
    def serving(self):
        return Serving(os.path.join(self.folder, "serving"), self.folder)

    def cycle(self, promote_as=None, *, dies=False):
        """A cycle that passes the gate; `dies` before it notes that it has published."""
        folder = cycle_files.new(self.folder)
        live = self.serving.live
        judged = Judged(
            passed=True, candidate=self.export, rows=1,
            live_version=live.number if live else None, live_token=live.token if live else None,
        )  # fmt: skip
        for output in (judged, Vocabularies(spec="")):
            folder.save(output)
        return folder if dies else self.goes_on(folder, promote_as)

    def goes_on(self, folder, promote_as=None):
        """The stage `promote` of a cycle, and its lineage."""
        retraining = types.SimpleNamespace(promote_as=promote_as)
        running = types.SimpleNamespace(
            folder=folder, serving=self.serving, answers=None, window=reports.window(),
            command=types.SimpleNamespace(retraining=retraining),
        )  # fmt: skip
        promoted = stages.promote(running)
        folder.save(promoted)
        folder.save(
            Lineage(
                cycle=folder.name, parent=Parent(source=None), data=Data(train=[], evaluate=[]),
                spec=Spec(path="", fingerprint=""), code="", versions={}, flags=[], metrics=None,
            )
        )  # fmt: skip
        canaries.record(self.serving, self.folder)
        return promoted

    def promote(self, number):
        run = types.SimpleNamespace(model_dir=self.folder)
        return canaries.promote(run, ToVersion(to=number))

    def became(self, cycle):
        return cycle_files.find(self.folder, str(cycle)).output(Lineage).canary


@pytest.fixture
def model(tmp_path, monkeypatch):
    return Model(tmp_path, monkeypatch)


def test_a_canary_is_not_in_the_folder_of_live_versions(model, caplog):
    with caplog.at_level(logging.WARNING):
        first = model.cycle("canary")
    assert (first.version, first.label) == (1, None)
    assert caplog.messages == [
        "no model is live yet, so the candidate goes live, and not as a canary"
    ]
    second = model.cycle("canary")
    assert (second.version, second.label) == (2, "canary")
    assert second.path == f"{model.serving.folder}.canary/2"
    assert versions.numbers(model.serving.folder) == [1] and model.serving.live.number == 1
    assert cycle_versions.waiting_canary(model.serving).number == 2
    # Both folders share one sequence of numbers.
    assert model.cycle().version == 3
    assert model.cycle("canary").version == 4
    assert [entry.version for entry in model.serving.past()] == [1, 2, 3, 4]


def test_the_next_canary_supersedes_the_one_before(model):
    for promote_as in (None, "canary", "canary"):
        model.cycle(promote_as)
    assert model.became(1) is None
    assert model.became(2) == AsCanary(version=2, superseded_by=3)
    assert model.became(3) == AsCanary(version=3)
    with pytest.raises(ConfigError) as error:
        model.promote(2)
    assert str(error.value) == (
        f"--to=2: {model.serving.folder}.canary has no canary 2. The canary is version 3."
    )


def test_a_promotion_makes_a_canary_live_once(model):
    model.cycle()
    model.cycle("canary")
    assert model.promote(2) == (
        "version 3 is live. It is a copy of canary 2 of cycle 0002, and replaces version 1."
    )
    live = model.serving.live
    assert (live.number, live.canary, live.cycle, live.parent, live.label) == (
        3,
        2,
        "0002",
        1,
        None,
    )
    assert live.rollback_of is None and cycle_versions.waiting_canary(model.serving) is None
    assert model.became(2) == AsCanary(version=2, promoted_as=3)
    cycles = cycle_files.cycles(model.folder)
    assert cycle_versions.owner(live, model.serving, cycles).name == "0002"
    assert model.promote(2) == "version 3 is live already. It is a copy of canary 2."
    assert versions.numbers(model.serving.folder) == [1, 3]
    # The canary was promoted, so the next one does not supersede it.
    model.cycle("canary")
    assert model.became(2) == AsCanary(version=2, promoted_as=3)


def test_what_is_no_canary_cannot_be_promoted(model):
    with pytest.raises(ConfigError, match="retrain --promote_as=canary makes one"):
        model.promote(1)
    assert not os.path.exists(model.folder)
    model.cycle()
    with pytest.raises(ConfigError, match="To make an earlier version live again, use --mode=roll"):
        model.promote(1)


def test_a_canary_that_monitoring_rolled_back_does_not_go_live_again(model):
    model.cycle()
    model.cycle("canary")
    model.promote(2)
    serving = model.serving
    goal = rollback.target(serving)
    assert goal.version.number == 1
    rollback.roll_back(serving, goal.version, bad=3, reason="auc")
    rollback.record(serving, model.folder)
    assert cycle_files.find(model.folder, "2").output(Lineage).rolled_back.version == 3
    with pytest.raises(ConfigError) as error:
        model.promote(2)
    assert str(error.value) == (
        "--to=2: monitoring rolled back a copy of canary 2, and version 4 replaced it: auc. Wait "
        "for the next canary."
    )
    assert serving.live.number == 4


def test_a_person_may_promote_again_after_a_rollback(model):
    model.cycle()
    model.cycle("canary")
    model.promote(2)
    serving = model.serving
    serving.publish(serving.find(1).path, cycle="0001", verify=lambda path: None, rollback_of=1)
    assert model.promote(2).startswith("version 5 is live. ")
    assert model.became(2) == AsCanary(version=2, promoted_as=5)


class Killed(BaseException):
    pass


def kill(*arguments, **options):
    raise Killed


def test_a_cycle_that_is_killed_before_the_rename_publishes_nothing(model, monkeypatch):
    model.cycle()
    folder = model.cycle(dies=True)
    with monkeypatch.context() as patch:
        patch.setattr(versions, "publish", kill)
        with pytest.raises(Killed):
            model.goes_on(folder, "canary")
    assert cycle_versions.waiting_canary(model.serving) is None
    assert model.goes_on(folder, "canary").version == 2


def test_a_cycle_that_is_killed_after_the_rename_publishes_once(model, monkeypatch):
    """Its canary is not recorded in versions.json, and no other version gets its number."""
    model.cycle()
    folder = model.cycle(dies=True)
    rename = versions.publish
    with monkeypatch.context() as patch:
        patch.setattr(versions, "publish", lambda *a, **o: (rename(*a, **o), kill()))
        with pytest.raises(Killed):
            model.goes_on(folder, "canary")
    assert [entry.version for entry in model.serving.past()] == [1]
    model.serving.publish(model.export, cycle=None, verify=lambda path: None)
    assert model.serving.live.number == 3
    assert (model.goes_on(folder, "canary").version, model.became(2)) == (2, AsCanary(version=2))


def test_a_promotion_that_is_killed_is_done_by_the_next_start(model, monkeypatch):
    model.cycle()
    model.cycle("canary")
    with monkeypatch.context() as patch:
        patch.setattr(versions, "publish", kill)
        with pytest.raises(Killed):
            model.promote(2)
    assert model.serving.live.number == 1 and model.became(2) == AsCanary(version=2)
    with monkeypatch.context() as patch:
        patch.setattr(canaries, "record", kill)
        with pytest.raises(Killed):
            model.promote(2)
    assert model.serving.live.number == 3 and model.became(2) == AsCanary(version=2)
    assert model.promote(2) == "version 3 is live already. It is a copy of canary 2."
    assert model.became(2) == AsCanary(version=2, promoted_as=3)


def test_a_canary_is_not_published_if_another_model_went_live_after_the_gate(model):
    model.cycle()
    folder = model.cycle(dies=True)
    model.serving.publish(model.export, cycle=None, verify=lambda path: None)
    with pytest.raises(Locked, match="another model went live"):
        model.goes_on(folder, "canary")
    assert cycle_versions.waiting_canary(model.serving) is None


def test_old_canaries_are_removed_and_the_cycle_of_a_new_one_is_kept(model):
    for promote_as in (None, "canary", "canary", "canary", None):
        model.cycle(promote_as)
    for cycle in cycle_files.cycles(model.folder):
        os.makedirs(cycle.at("train"))
    cycles = cycle_files.cycles(model.folder)
    cleaned = retention.clean(cycles, model.serving, newest=1, versions=3)
    assert cleaned.versions_removed == [2]
    assert versions.numbers(model.serving.canaries.folder) == [3, 4]
    assert "0004" in cleaned.kept and "0002/train" in cleaned.removed
    assert [entry.version for entry in model.serving.past()] == [1, 2, 3, 4, 5]


def test_a_request_without_a_version_was_not_to_a_canary(model, tmp_path):
    model.cycle()
    model.cycle("canary")
    baselines = Baselines(parser.parse(DOCUMENT), model.folder, model.serving)
    assert baselines.at(model.serving.canaries.live.at + 1) == 1
    assert baselines.versions[2].label == "canary"
