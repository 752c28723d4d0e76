"""Decides about all features of a first spec together: kinds of values, and leaks of labels.

    decisions = decide(summary, statistics, ["click"], Overrides(numeric=("hour",)))
    decisions.kinds["hour"].number, decisions.leaks

Reads the statistics and the sample of rows in a summary, and writes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from feature_specs.statistics import Statistics
from input_pipelines.prepare.analyze import label_effect, leaks, value_kinds
from input_pipelines.prepare.analyze.numbers import with_commas
from input_pipelines.prepare.analyze.overrides import Overrides
from input_pipelines.prepare.analyze.row_sample import text_hash
from input_pipelines.prepare.analyze.summary import RecordSummary
from input_pipelines.prepare.analyze.value_kinds import Kind


@dataclasses.dataclass(frozen=True)
class Decisions:
    """What is decided about features.

    Attributes:
      labels: the labels, which are not features.
      kinds: what the values of each feature are.
      leaks: why a feature gives a label away, by feature: it is ignored. Features that the user
        names are not in it.
      suspected: the same for features that are used, because the reason may be harmless.
    """

    labels: Sequence[str]
    kinds: dict[str, Kind]
    leaks: dict[str, str]
    suspected: dict[str, str]

    def unwanted(self, name: str, overrides: Overrides) -> str:
        """Why a feature is ignored although a model can read it; empty if it is not."""
        if name in overrides.ignore:
            return "--ignore names it"
        if name not in self.leaks:
            return ""
        flag = "categorical" if self.kinds[name].category else "numeric"
        return f"it may give a label away: {self.leaks[name]} (override: --{flag}={name})"


def decide(
    summary: RecordSummary, statistics: Statistics, labels: Sequence[str], overrides: Overrides
) -> Decisions:
    """The decisions for the features of a summary that has a sample of its rows."""
    sample = summary.sample.columns() if summary.sample is not None else {}
    targets = [label_effect.target(name, sample[name]) for name in labels if name in sample]
    known = [target for target in targets if target is not None]
    features = {n: f for n, f in statistics.features.items() if n not in labels}
    columns = {name: sample[name] for name in features if name in sample}
    counts = {name: summary.features[name].value_counts for name in features}
    kinds = value_kinds.decide(features, counts, columns, known, overrides)
    asked = {n: c for n, c in columns.items() if n not in {*overrides.used, *overrides.ignore}}
    categories = [name for name, kind in kinds.items() if kind.category]
    found = leaks.find(asked, known, categories, _Texts(summary))
    return Decisions(labels, kinds, found.certain, found.suspected)


class _Texts:
    """Finds the text of a value in a sample, which has only hashes of texts."""

    def __init__(self, summary: RecordSummary):
        self._summary = summary

    def __call__(self, name: str, value: object) -> str:
        if self._summary.features[name].dtype == "string":
            assert isinstance(value, int)
            return repr(self._words(name).get(value, "a text"))
        assert isinstance(value, (int, float))
        return with_commas(value)

    def _words(self, name: str) -> dict[int, str]:
        counter = self._summary.features[name].counter
        words = counter.words() if counter is not None else []
        return {text_hash(word.encode()): word for word, _ in words}
