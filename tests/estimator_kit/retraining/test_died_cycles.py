"""A cycle that died after it went live is finished later, and goes live only once."""

from __future__ import annotations

import json
import os

import pytest

from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of
from estimator_kit.errors import NothingToDo
from estimator_kit.retraining import cycle, cycle_files, cycle_versions, gate_stage, modes, stages
from estimator_kit.retraining.cycle_report import Report
from estimator_kit.retraining.cycle_versions import Promoted, Publishing
from estimator_kit.retraining.data_checks import Checked
from estimator_kit.retraining.facts import FileFacts
from estimator_kit.retraining.gate_stage import Judged
from estimator_kit.retraining.lineage import Lineage
from estimator_kit.retraining.promotion import Serving
from estimator_kit.retraining.training_stage import Start, Trained
from estimator_kit.retraining.vocabularies import Vocabularies
from estimator_kit.retraining.window import CycleWindow, PeriodData, Window
from feature_specs.files import staged


class Killed(BaseException):
    """Stands for `kill -9`: nothing is reported."""


@pytest.fixture
def nights(tmp_path, monkeypatch, document):
    """Cycles with fake stages. Call `run(night)`; set `passes` and `dies_in` before."""
    spec = tmp_path / "spec.yaml"
    spec.write_text(json.dumps(document))

    class Nights:
        model = str(tmp_path / "model")
        serving = Serving(str(tmp_path / "model/serving"), model)
        passes = True
        dies_in = ""

        def __init__(self):
            self.ran = []

        def config(self, night, **changes):
            fields = {
                "mode": "retrain", "spec": str(spec), "model": "linear", "model_dir": self.model,
                "train_files": (f"{tmp_path}/dt=*/*",), "window": "1d", "epochs": 1,
                "as_of": f"2026-01-{night:02d}", **changes,
            }  # fmt: skip
            return ExperimentConfig(**fields)

        def run(self, night, **changes):
            return cycle.run(command_of(self.config(night, **changes)), clock=lambda: 5.0)

        def outcomes(self):
            return [folder.outcome for folder in cycle_files.cycles(self.model)]

    nights = Nights()

    def choose(data, reading, retraining, spec, facts, *, as_of, before):
        def day(number):
            name = f"2026-01-{number:02d}"
            path = str(tmp_path / name)
            file = FileFacts(path=path, bytes=1, sha256=f"sha {number}", rows=10)
            return (PeriodData(name=name, digest=f"digest {number}", rows=10, files=(file,)),)

        train, evaluate = day(int(as_of[-2:]) - 1), day(int(as_of[-2:]))
        found = Window(as_of=as_of, train=train, evaluate=evaluate, left_out={})
        return cycle.compared(found, before)

    def train(work):
        nights.ran.append(work.folder.name)
        export = work.folder.at("train", "export")
        os.makedirs(export)
        start = Start(kind="scratch")
        work.folder.save(start)
        return Trained(export_path=export, global_step=7, metrics={}, rows_trained=10, start=start)

    def gate(work):
        live = work.serving.live
        return Judged(
            passed=nights.passes, candidate=work.folder.output(Trained).export_path, rows=10,
            live_version=live.number if live is not None else None,
        )  # fmt: skip

    def dying(name, function):
        def stage(*arguments, **named):
            if nights.dies_in == name:
                nights.dies_in = ""
                raise Killed
            return function(*arguments, **named)

        return stage

    real_rename = staged.rename

    def rename(source, target, **options):
        real_rename(source, target, **options)
        if nights.dies_in == "rename" and ".tmp-version-" in os.path.basename(source):
            nights.dies_in = ""
            raise Killed

    monkeypatch.setattr(cycle, "choose", choose)
    monkeypatch.setattr(stages, "grow_vocabularies", lambda work: Vocabularies(spec=str(spec)))
    monkeypatch.setattr(stages, "check", lambda work: Checked(findings=[]))
    monkeypatch.setattr(stages, "train", train)
    monkeypatch.setattr(stages, "judge", gate)
    monkeypatch.setattr(stages, "clean", dying("clean", stages.clean))
    monkeypatch.setattr(cycle, "_tell_of_failure", lambda *arguments: None)
    monkeypatch.setattr(gate_stage, "verify", lambda *arguments: lambda path: None)
    monkeypatch.setattr(modes, "loads", lambda path: None)
    monkeypatch.setattr(staged, "rename", rename)
    nights.run(2)
    nights.ran = []
    return nights


def die(nights, night, where):
    nights.dies_in = where
    with pytest.raises(Killed):
        nights.run(night)


@pytest.mark.parametrize("where", ["rename", "clean"])
def test_one_that_went_live_is_finished_before_the_next_begins(nights, where):
    die(nights, 3, where)
    second = cycle_files.find(nights.model, "2")
    assert (second.load(Promoted) is None) == (where == "rename")
    assert nights.serving.live.cycle == "0002" and second.outcome is None
    nights.run(4)
    assert nights.outcomes() == ["promoted"] * 3 and nights.ran == ["0002", "0003"]
    assert [version.cycle for version in nights.serving.versions()] == ["0001", "0002", "0003"]
    assert second.output(Promoted).version == 2 == second.output(Report).version
    lineage = second.output(Lineage)
    # The lineage describes its own start, not the start that finished it.
    assert lineage.version == 2 and "--as_of=2026-01-03" in lineage.flags
    assert lineage.identity == second.output(CycleWindow).identity
    # The third cycle is compared with the second.
    assert cycle_files.find(nights.model, "3").output(CycleWindow).identity != lineage.identity


@pytest.mark.parametrize("night", [3, 4])
def test_a_rollback_after_its_death_is_not_undone(nights, night):
    die(nights, 3, "rename")
    modes.roll_back(*[nights.config(3, mode="rollback", to=1)] * 2)
    assert [version.cycle for version in nights.serving.versions()] == ["0001", "0002", "0001"]
    nights.passes = False  # For the third cycle, if it is started.
    try:
        nights.run(night)
    except cycle.Refused:
        assert night == 4
    assert nights.serving.live.number == 3 and nights.serving.live.cycle == "0001"
    assert nights.outcomes() == ["promoted", "promoted", "refused"][: night - 1]
    second = cycle_files.find(nights.model, "2")
    assert second.output(Promoted).version == 2 and second.output(Report).live_now == 3
    with open(second.at("report.md"), encoding="utf-8") as file:
        assert file.readline() == (
            "# cycle 0002 (2026-01-03) was promoted as version 2; version 3 is live now\n"
        )
    if night == 3:
        with pytest.raises(NothingToDo):
            nights.run(3)


def test_one_that_was_refused_before_it_died_is_finished_as_that(nights):
    nights.passes = False
    die(nights, 3, "clean")
    nights.passes = True
    nights.run(4)
    assert nights.outcomes() == ["promoted", "refused", "promoted"]
    assert cycle_files.find(nights.model, "2").output(Report).outcome == "refused"


def test_one_that_was_not_judged_is_abandoned(nights, monkeypatch):
    def dies(work):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(stages, "judge", dies)
        with pytest.raises(Killed):
            nights.run(3)
    nights.run(4)
    assert nights.outcomes() == ["promoted", "abandoned", "promoted"]


def test_a_version_of_another_model_directory_is_not_taken_for_its_own(tmp_path):
    serving = Serving(str(tmp_path / "serving"), str(tmp_path / "old"))
    (tmp_path / "export").mkdir()

    def publish(to, **named):
        return to.publish(str(tmp_path / "export"), cycle="0001", verify=lambda p: None, **named)

    (tmp_path / "old").mkdir()
    publish(serving)
    again = Serving(serving.folder, str(tmp_path / "new"))
    folder = cycle_files.new(str(tmp_path / "new"))
    assert cycle_versions.find(folder, again) is None
    token = cycle_versions.begin(folder, again)
    publish(again, rollback_of=1)  # Version 2 also belongs to the old cycle 0001.
    # Another model directory, whose cycle has the same name, publishes before this one.
    publish(Serving(serving.folder, str(tmp_path / "other")), token="another")
    assert cycle_versions.find(folder, again) is None
    own = publish(again, token=token)
    assert (
        cycle_versions.begin(folder, again) == token
    )  # A start after the cycle died calls it again.
    assert cycle_versions.find(folder, again) == own
    back, again_own = publish(again, rollback_of=1), publish(again, rollback_of=own.number)
    twice = publish(again, rollback_of=again_own.number)
    again.remove(own)
    assert cycle_versions.find(folder, again) == own
    owners = {
        version.number: cycle_versions.owner(version, again, [folder])
        for version in again.versions()
    }
    assert owners == {1: None, 2: None, 3: None, back.number: None, again_own.number: folder,
                      twice.number: folder}  # fmt: skip
    assert cycle_versions.owner(None, again, [folder]) is None
    assert cycle_versions.owner(own, again, []) is None


def test_the_version_of_a_cycle_of_an_older_kit_is_found_by_its_number(tmp_path):
    serving = Serving(str(tmp_path / "serving"), str(tmp_path / "model"))
    (tmp_path / "export").mkdir()
    folder = cycle_files.new(str(tmp_path / "model"))
    folder.save(Publishing(above=0))
    assert cycle_versions.begin(folder, serving) is None
    own = serving.publish(str(tmp_path / "export"), cycle=folder.name, verify=lambda path: None)
    assert cycle_versions.find(folder, serving) == own
