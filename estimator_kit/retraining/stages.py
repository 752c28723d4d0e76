"""The stages of a cycle: each is a function that takes the cycle and returns its file.

`cycle` runs the stages in order and writes their files. A stage reads the files of earlier stages.
A stage that died is run again from its start.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import logging
import os
from typing import Optional

from estimator_kit.checkpoints import run_record
from estimator_kit.config.areas.retraining import Retraining
from estimator_kit.config.modes import InFolder, Retrain
from estimator_kit.errors import Locked
from estimator_kit.models import find_model
from estimator_kit.retraining import (
    cycle_files,
    cycle_versions,
    data_checks,
    gate_stage,
    retention,
    shadow_requests,
    training_stage,
    vocabularies,
)
from estimator_kit.retraining.cycle_files import CycleFolder
from estimator_kit.retraining.facts import Facts
from estimator_kit.retraining.promotion import Serving, Version
from estimator_kit.retraining.training_stage import Start, Trained
from estimator_kit.retraining.window import CycleWindow, Window
from feature_specs.files import owners
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from input_pipelines.errors import DataError
from input_pipelines.reading.periods import UTC

_log = logging.getLogger("estimator_kit")


def serving_of(
    run: InFolder, retraining: Retraining, lock: Optional[owners.Lock] = None
) -> Serving:
    """The serving directory of a config. With `lock`, nothing goes live after it is lost."""
    folder = cycle_files.chosen_serving_dir(retraining.serving_dir, run.model_dir)
    return Serving(folder, run.model_dir, *([lock.check] if lock is not None else []))


@dataclasses.dataclass
class Cycle:
    """A running cycle.

    Attributes:
      config, spec: the config and the given spec.
      folder: the folder of its outputs.
      window: its periods.
      serving: the serving directory.
      facts: the facts of the data files.
      last: the last cycle before it that ran to its end.
      answers: what the candidate answered in the gate, if that ran in this process.
    """

    command: Retrain
    spec: FeatureSpec
    folder: CycleFolder
    window: Window
    serving: Serving
    facts: Facts
    last: Optional[CycleFolder]
    answers: Optional[gate_stage.Answers] = None


def window_of(cycle: Optional[CycleFolder]) -> Optional[CycleWindow]:
    return cycle.load(CycleWindow) if cycle is not None else None


def look_again_at_live(cycle: Cycle) -> None:
    """Forgets the gate's verdict if another model went live since then, by a rollback."""
    judged = cycle.folder.load(gate_stage.Judged)
    live = cycle.serving.live
    if judged is None or cycle.folder.load(cycle_versions.Promoted) is not None:
        return
    own = cycle_versions.find(cycle.folder, cycle.serving)
    if not _is_of_the_gate(live, judged) and own is None:
        cycle.folder.forget(gate_stage.Judged)


def _is_of_the_gate(live: Optional[Version], judged: gate_stage.Judged) -> bool:
    """Whether the gate has compared with this version.

    Another serving directory may have another model under the same number. Verdicts of older kits,
    and versions of other programs, have no token.
    """
    if live is None:
        return judged.live_version is None
    return live.number == judged.live_version and judged.live_token in (None, live.token)


def _judged_by(cycle: Cycle) -> FeatureSpec:
    """The spec of the cycle, with the limits that the given spec has now."""
    spec = parser.load(cycle.folder.output(vocabularies.Vocabularies).spec, stored=True)
    return dataclasses.replace(spec, drift=cycle.spec.drift, retraining=cycle.spec.retraining)


def check(cycle: Cycle) -> data_checks.Checked:
    before = window_of(cycle.last)
    spec, facts = _judged_by(cycle), cycle.facts
    measured = None
    if spec.drift.any:
        facts.statistics(cycle.window.train_files)  # Stored for the next cycle.
        statistics = facts.old_statistics(before.train_files) if before is not None else None
        if before is not None and statistics is not None:
            measured = data_checks.measure_drift(spec, cycle.window, facts, before, statistics)
    cycle.folder.save(
        data_checks.Drift.of(measured, before)
    )  # Before a finding can stop the cycle.
    findings = data_checks.run(
        spec,
        cycle.window,
        facts,
        before=before,
        drift_found=measured,
        other_files=bool(cycle.command.data.judging_files),
    )
    for finding in findings:
        if finding.verdict == "warn":
            _log.warning("%s", finding.text)
    stops = [finding.text for finding in findings if finding.verdict == "stop"]
    if stops:
        raise DataError("\n".join(["the checks before training stopped this cycle:", *stops]))
    return data_checks.Checked(
        findings=findings, label_means=data_checks.label_means(spec, cycle.window, facts)
    )


def grow_vocabularies(cycle: Cycle) -> vocabularies.Vocabularies:
    live, start = cycle.serving.live, _start(cycle)
    of_live = _spec_folder(cycle, live) if live is not None else None
    of_last = cycle.last.at("spec") if cycle.last is not None else None
    return vocabularies.make(
        cycle.spec,
        cycle.folder.at("spec"),
        files=[file.path for file in cycle.window.train_files],
        min_count=cycle.command.analysis.min_count,
        summary=lambda: cycle.facts.summary(cycle.window.train_files),
        live=of_live,
        start={"live": of_live, "last": of_last}.get(start.kind),
    )


def _spec_folder(cycle: Cycle, live: Version) -> str:
    """The folder of the live model's spec."""
    owner = _owner(cycle, live)
    if owner is not None and os.path.isdir(owner.at("spec")):
        return owner.at("spec")
    # Retention may have removed the spec of an old cycle, but its model has one too.
    return os.path.join(live.path, "assets.extra", "feature_spec")


def _owner(cycle: Cycle, live: Optional[Version]) -> Optional[CycleFolder]:
    return cycle_versions.owner(
        live, cycle.serving, cycle_files.cycles(cycle.command.run.model_dir)
    )


def _start(cycle: Cycle) -> Start:
    live = cycle.serving.live
    cycles = cycle_files.cycles(cycle.command.run.model_dir)
    rejected = {
        cycle_versions.owner(version, cycle.serving, cycles)
        for version in cycle_versions.versions(cycle.serving)
        if version.number in cycle_versions.rolled_back(cycle.serving)
    }
    return training_stage.choose_start(
        cycle.spec,
        live=live,
        owner=_owner(cycle, live),
        last=cycle.last,
        cycles=cycles,
        rolled_back={each.name for each in rejected if each is not None},
    )


def train(cycle: Cycle) -> Trained:
    return training_stage.train(
        cycle.command.settings,
        cycle.folder,
        cycle.window,
        spec=cycle.folder.output(vocabularies.Vocabularies).spec,
        start=_start(cycle),
        warm_start_epochs=cycle.spec.retraining.warm_start_epochs,
    )


def judge(cycle: Cycle) -> gate_stage.Judged:
    # Training takes long, and an earlier start may have trained.
    cycle.facts.check_unchanged([*cycle.window.train_files, *cycle.window.eval_files])
    export = cycle.folder.output(Trained).export_path
    assert export is not None
    judged, cycle.answers = gate_stage.run(
        _judged_by(cycle),
        export,
        cycle.serving.live,
        [file.path for file in cycle.window.eval_files],
        batch_size=cycle.command.reading.eval_batch_size,
        known_periods=_known_periods(cycle),
        calibrated=find_model(cycle.command.choice.model).calibrated,
        newest_requests=functools.partial(_newest_requests, cycle),
    )
    return judged


def _newest_requests(cycle: Cycle, count: int) -> shadow_requests.Asked:
    """The newest logged requests. Those to versions that were removed are read as to the newest."""
    existing = [*cycle.serving.versions(), *cycle.serving.canaries.versions()]
    own = {version.number: version.path for version in existing}
    specs: dict[Optional[str], FeatureSpec] = {None: cycle.spec}

    def spec_of(number: Optional[int]) -> FeatureSpec:
        path = own.get(number) if number is not None else None
        if path not in specs:
            kept = run_record.kept_spec(os.path.join(path or "", "assets.extra", "feature_spec"))
            specs[path] = kept or cycle.spec
        return specs[path]

    return shadow_requests.newest(cycle.command.monitoring, spec_of, count=count)


def _known_periods(cycle: Cycle) -> list[str]:
    """The evaluation periods up to the newest on which the live model or the start was trained.

    There are some if no new data came, if periods were removed, or if --as_of went back. A model
    was also trained on the periods of the models that it started from.
    """
    cycles = {folder.name: folder for folder in cycle_files.cycles(cycle.command.run.model_dir)}
    live = cycle.serving.live
    owner = _owner(cycle, live)
    if live is not None and owner is None:
        _log.warning(
            "version %s in %s is not of a cycle in %s, so the periods on which it was trained "
            "are unknown",
            live.number,
            cycle.serving.folder,
            cycle.command.run.model_dir,
        )
    own = cycle.folder.output(Trained).start.cycle
    names = {own, owner.name if owner is not None else None}
    seen: set[Optional[str]] = {None}
    newest = datetime.datetime.min.replace(tzinfo=UTC)
    while names - seen:
        name = (names - seen).pop()
        seen.add(name)
        window = window_of(cycles.get(name or ""))
        if window is None:
            _log.warning(
                "%s is missing, so the periods on which that cycle was trained are unknown",
                CycleFolder(cycle.command.run.model_dir, name or "").at("window.json"),
            )
            continue
        newest = max(newest, window.train[-1].span.end)
        start = cycles[name or ""].load(Start)
        names.add(start.cycle if start is not None else None)
    return [period.name for period in cycle.window.evaluate if period.span.start < newest]


def promote(cycle: Cycle) -> cycle_versions.Promoted:
    judged = cycle.folder.output(gate_stage.Judged)
    if not judged.passed:
        return cycle_versions.Promoted(version=None)
    own = cycle_versions.find(cycle.folder, cycle.serving)
    if own is None:  # Otherwise an earlier start published the model and died.
        spec = parser.load(cycle.folder.output(vocabularies.Vocabularies).spec, stored=True)
        paths = [file.path for file in cycle.window.eval_files]
        token = cycle_versions.begin(cycle.folder, cycle.serving)
        own = _place(cycle).publish(
            judged.candidate,
            cycle=cycle.folder.name,
            verify=gate_stage.verify(spec, judged.candidate, paths, cycle.answers),
            token=token,
            check_live=lambda _: _check_judged_against(judged, cycle),
        )
    return cycle_versions.Promoted(version=own.number, path=own.path, label=own.label)


def _place(cycle: Cycle) -> Serving:
    """Where the candidate is published."""
    if cycle.command.retraining.promote_as != "canary":
        return cycle.serving
    if cycle.serving.live is None:
        _log.warning("no model is live yet, so the candidate goes live, and not as a canary")
        return cycle.serving
    return cycle.serving.canaries


def _check_judged_against(judged: gate_stage.Judged, cycle: Cycle) -> None:
    """Raises Locked if another model than in the gate is live. The next start judges again."""
    live = cycle.serving.live
    if not _is_of_the_gate(live, judged):
        numbers = (judged.live_version, live.number if live is not None else None)
        expected, got = (f"version {n}" if n is not None else "no version" for n in numbers)
        got = f"another {got}" if expected == got else got
        raise Locked(
            f"another model went live in {cycle.serving.folder} after the gate: expected "
            f"{expected}, got {got}. Start again: the next start compares with the model that is "
            "live now."
        )


def clean(cycle: Cycle) -> retention.Cleaned:
    retraining = cycle.command.retraining
    cycle.facts.keep_summaries([*cycle.window.train_files, *cycle.window.eval_files])
    return retention.clean(
        cycle_files.cycles(cycle.command.run.model_dir),
        cycle.serving,
        newest=retraining.keep_cycles,
        versions=retraining.keep_versions,
    )
