"""What a version is compared with: its spec, its training, and its evaluation at the gate.

    baselines = Baselines(spec, model_dir, serving)
    baselines.of(7)      # a Baseline

A version that a cycle of retraining made has statistics of its training files (`retraining.facts`),
evaluation files to score, and the metrics of the gate. What no longer exists is not compared, and a
note says why. The scores of a version in its evaluation are computed once, and kept in
`monitor/scores/`.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from estimator_kit.errors import ConfigError
from estimator_kit.monitoring.results import folder_of
from estimator_kit.retraining import cycle_files, cycle_versions
from estimator_kit.retraining.cycle_files import CycleFolder
from estimator_kit.retraining.facts import Facts, FileFacts
from estimator_kit.retraining.gate_stage import Judged
from estimator_kit.retraining.promotion import Serving, Version
from estimator_kit.retraining.window import CycleWindow
from estimator_kit.scoring import logged_answers
from estimator_kit.scoring.eval_rows import EvalRows
from feature_specs.errors import SpecError
from feature_specs.files import file_systems
from feature_specs.parser import parser
from feature_specs.spec import FeatureSpec
from feature_specs.statistics import Statistics
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze.feature_block import FeatureBlock
from input_pipelines.prepare.analyze.summary import RecordSummary

_log = logging.getLogger("estimator_kit")

_SPEC = os.path.join("assets.extra", "feature_spec", "spec.json")
_BATCH = 1024


@dataclasses.dataclass(frozen=True)
class Baseline:
    """What a version is compared with.

    Attributes:
      version: its number; None for rows whose version is not known.
      spec: its spec; the given one if it has none any more.
      statistics: the statistics of its training files, or None.
      scores: the statistics of its scores in its evaluation, by objective, or None.
      metrics: its metrics at the gate.
      notes: why something is missing.
    """

    version: Optional[int]
    spec: FeatureSpec
    statistics: Optional[Statistics] = None
    scores: Optional[Statistics] = None
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


def summary_of_scores(scores: Mapping[str, NDArray[Any]]) -> Statistics:
    """The statistics of scores as people read them (`logged_answers.shown`), by objective."""
    summary = RecordSummary()
    rows = 0
    for name, values in scores.items():
        rows = len(values)
        is_class = values.dtype.kind in "iu"
        stored = values.astype(np.int64) if is_class else values.astype(np.float32)
        dtype = "int64" if is_class else "float32"
        one = np.ones(rows, np.int64)
        block = FeatureBlock(dtype, np.arange(rows), one, stored)
        summary.add({name: [block]}, 0, "scores", 0)
    summary.rows = rows
    return summary.statistics(1)


class Baselines:
    """The baselines of versions.

    Args:
      spec: the spec that is given.
      model_dir: the model directory of retraining.
      serving: its serving directory.
    """

    def __init__(self, spec: FeatureSpec, model_dir: str, serving: Serving):
        self._spec, self._model_dir, self._serving = spec, model_dir, serving
        self._cycles = cycle_files.cycles(model_dir)
        existing = [*serving.versions(), *serving.canaries.versions()]
        present = {version.number: version for version in existing}
        past = {e.version: serving.version(e.version, e) for e in serving.past()}
        self.versions: dict[int, Version] = {**past, **present}
        self._present = present
        self._specs: dict[Optional[int], FeatureSpec] = {None: spec}
        self._found: dict[Optional[int], Baseline] = {}

    def at(self, time: float) -> Optional[int]:
        """The version that was live at a time in seconds since 1970, or None."""
        went_live = [v for v in self.versions.values() if v.label is None and v.at is not None]
        return max((v.number for v in went_live if v.at is not None and v.at <= time), default=None)

    def spec_of(self, number: Optional[int]) -> FeatureSpec:
        """The spec of a version; the given one if its own no longer exists."""
        if number not in self._specs:
            self._specs[number] = self._read_spec(number) or self._spec
        return self._specs[number]

    def identity(self, number: Optional[int]) -> str:
        """What tells a version from another model with the same number; "" if nothing does."""
        version = self.versions.get(number) if number is not None else None
        if version is None:
            return ""
        return f"cycle {version.cycle}, published at {version.at}, {version.token}"

    def of(self, number: Optional[int]) -> Baseline:
        """The baseline of a version."""
        if number not in self._found:
            self._found[number] = self._find(number)
        return self._found[number]

    def metrics_of(self, number: Optional[int]) -> dict[str, float]:
        """The metrics of a version at the gate of its cycle, by `<metric>/<objective>`."""
        owner = self._owner(number)
        judged = owner.load(Judged) if owner is not None else None
        if judged is None:
            return {}
        both = judged.metrics.items()
        return {name: b.candidate for name, b in both if b.candidate is not None}

    def _owner(self, number: Optional[int]) -> Optional[CycleFolder]:
        version = self.versions.get(number) if number is not None else None
        return cycle_versions.owner(version, self._serving, self._cycles)

    def _read_spec(self, number: Optional[int]) -> Optional[FeatureSpec]:
        paths = []
        if number in self._present:
            paths.append(os.path.join(self._present[number].path, _SPEC))
        for path in paths:
            try:
                if os.path.exists(path):
                    return parser.load(path, stored=True)
            except (ConfigError, SpecError) as error:
                _log.warning("the spec of version %s cannot be read: %s", number, error)
        return None

    def _find(self, number: Optional[int]) -> Baseline:
        spec, notes = self.spec_of(number), []
        if number is None:
            notes.append("the log does not say which version answered")
        elif number not in self.versions:
            notes.append(f"version {number} is not one of {self._serving.folder}")
        owner = self._owner(number)
        window = owner.load(CycleWindow) if owner is not None else None
        statistics, scores = None, None
        if window is None:
            if number in self.versions:
                notes.append(
                    "no cycle of this model directory made the version, so it is not compared with "
                    "its training"
                )
        else:
            statistics = self._statistics(spec, window.train_files)
            if statistics is None:
                notes.append(
                    "the training files of the version have changed or were removed, so features "
                    "are not compared with them"
                )
            scores, why = self._scores(number, spec, window.eval_files)
            notes += [why] if why else []
        return Baseline(
            version=number,
            spec=spec,
            statistics=statistics,
            scores=scores,
            metrics=self.metrics_of(number),
            notes=tuple(notes),
        )

    def _statistics(self, spec: FeatureSpec, files: list[FileFacts]) -> Optional[Statistics]:
        facts = Facts(os.path.join(self._model_dir, "facts"), spec)
        try:
            return facts.old_statistics(files)
        except DataError as error:
            _log.warning("the statistics of the training files cannot be made: %s", error)
            return None

    def _scores(
        self, number: Optional[int], spec: FeatureSpec, files: list[FileFacts]
    ) -> tuple[Optional[Statistics], str]:
        """The scores of a version on its evaluation files, or why they are missing."""
        assert number is not None, "only a version has a cycle"
        version = self._present.get(number)
        token = (self.versions[number].token or "none")[:12]
        kept = os.path.join(folder_of(self._model_dir), "scores", f"{number}-{token}.json")
        found = Statistics.load(kept)
        if found is not None:
            return found, ""
        names = logged_answers.judged(spec)
        if version is None or not names:
            return None, "the version was removed, so its scores are not compared"
        for file in files:
            is_there = file_systems.exists(file.path)
            if not is_there or file_systems.stamp(file.path)[0] != file.bytes:
                return None, (
                    f"{file.path} has changed or was removed, so scores are not compared with the "
                    "evaluation of the version"
                )
        rows = EvalRows(spec, [file.path for file in files], features=(), batch_size=_BATCH)
        predicted = rows.predictions(version.path, names)
        shown = {
            name: logged_answers.shown(spec.objectives[name], np.asarray(values, np.float64))
            for name, values in predicted.items()
        }
        statistics = summary_of_scores(shown)
        statistics.save(kept)
        return statistics, ""
