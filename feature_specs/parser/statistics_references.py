"""Replaces references to statistics files by their numbers when a spec is read.

    price:  {numeric: price, normalizer: {zscore: {statistics: statistics.json}}}
    area:   {numeric: area, normalizer: {minmax: {statistics: statistics.json}}}
    age:    {bucketized: age, quantiles: 10, statistics: statistics.json}

become `{zscore: {mean: ..., stddev: ...}}`, `{minmax: {min: ..., max: ...}}` and
`{bucketized: age, boundaries: [...]}`. `sequence_numeric` works like `numeric`. The replacement
happens in the document before its entries are checked, so all later code sees numbers. The
statistics describe the stored feature. Only the first normalizer of a column may therefore use
them, and quantiles need a number without a normalizer. This module reads files below the spec's
folder. It never writes and does not import TensorFlow.
"""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from feature_specs.errors import Path, ProblemError, did_you_mean, value_text
from feature_specs.kinds import COLUMN_KINDS
from feature_specs.kinds.bounds import cuts
from feature_specs.kinds.vocabulary import inside
from feature_specs.sections.records import Filter
from feature_specs.statistics import PERCENTILES, Numbers, Statistics, StatisticsError, load

_log = logging.getLogger("feature_specs")

_FROM_FILE = ("zscore", "minmax")


class StatisticsReferences:
    """Resolves the references of one document. Reads each file once."""

    def __init__(self, directory: pathlib.Path, columns: Any):
        """`columns` is the unchecked section `columns` of a spec in `directory`."""
        self._directory = directory
        self._columns = columns if isinstance(columns, Mapping) else {}
        self._files: dict[str, Statistics] = {}

    def resolved(self, value: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
        """Returns a column's entry with numbers instead of references.

        Other mistakes stay in the entry. The check of entries reports them.

        Raises:
          ProblemError: a reference cannot be replaced.
        """
        kinds = (k for k, column in COLUMN_KINDS.items() if column.normalizer_statistics)
        source = next((value[kind] for kind in kinds if value.get(kind) is not None), None)
        if source is not None and "normalizer" in value:
            normalizer = self._normalizer(value["normalizer"], source, (*path, "normalizer"))
            return {**value, "normalizer": normalizer}
        if "bucketized" in value and {"quantiles", "statistics"}.intersection(value):
            return self._bucketized(value, path)
        return value

    def check_filter(self, filters: Sequence[Filter]) -> None:
        """Warns of a file whose records count by another filter than the rows of the spec."""
        for name, statistics in self._files.items():
            if list(statistics.filter) != [entry.as_dict() for entry in filters]:
                _log.warning(
                    "%s: its numbers describe rows of another `filter` than the spec has. Refresh "
                    "it: --mode=analyze --spec",
                    self._directory / name,
                )

    def _normalizer(self, normalizer: Any, feature: Any, path: Path) -> Any:
        listed = isinstance(normalizer, (list, tuple))
        steps = list(normalizer) if listed else [normalizer]
        for i, step in enumerate(steps):
            if not isinstance(step, Mapping) or len(step) != 1:
                continue
            ((kind, numbers),) = step.items()
            if kind not in _FROM_FILE or not isinstance(numbers, Mapping):
                continue
            if "statistics" in numbers:
                place = (*path, *([i] if listed else []), kind)
                steps[i] = {kind: self._step(kind, feature, numbers, i, place)}
        return steps if listed else steps[0]

    def _step(
        self, kind: str, feature: Any, numbers: Mapping[str, Any], position: int, path: Path
    ) -> dict[str, float]:
        if len(numbers) > 1:
            raise ProblemError(path, "set either the numbers or `statistics`, not both")
        if position:
            raise ProblemError(
                (*path, "statistics"),
                "statistics describe the stored feature, but other steps come first. "
                f"Make {kind} the first step, or set its numbers.",
            )
        stored = self._numbers(numbers["statistics"], feature, (*path, "statistics"))
        if kind == "zscore":
            return {"mean": stored.mean, "stddev": stored.stddev}
        return {"min": stored.min, "max": stored.max}

    def _bucketized(self, column: Mapping[str, Any], path: Path) -> dict[str, Any]:
        for key, other in (("quantiles", "statistics"), ("statistics", "quantiles")):
            if key not in column:
                raise ProblemError((*path, other), f"`{other}` needs `{key}`, which is missing")
        if "boundaries" in column:
            raise ProblemError(path, "set either `boundaries`, or `quantiles` and `statistics`")
        quantiles = column["quantiles"]
        if type(quantiles) is not int or not 2 <= quantiles <= PERCENTILES:
            raise ProblemError(
                (*path, "quantiles"),
                f"got {value_text(quantiles)}, expected a number of buckets, 2 to {PERCENTILES}",
            )
        feature = column["bucketized"]
        source = self._columns.get(feature) if isinstance(feature, str) else None
        if isinstance(source, Mapping) and "numeric" in source:
            feature = source["numeric"]
            if source.get("normalizer"):
                raise ProblemError(
                    (*path, "bucketized"),
                    f"column {column['bucketized']!r} has a normalizer, but quantiles describe the "
                    f"stored feature. Bucketize the feature {feature!r} instead (no column may "
                    "have the same name), or set `boundaries`.",
                )
        numbers = self._numbers(column["statistics"], feature, (*path, "statistics"))
        boundaries = cuts(numbers.quantiles, quantiles)
        if len(boundaries) < quantiles - 1:
            _log.warning(
                "%s: many rows have one value of feature %r, which leaves %d buckets instead of %d",
                ".".join(map(str, path)),
                feature,
                len(boundaries) + 1,
                quantiles,
            )
        rest = {k: v for k, v in column.items() if k not in ("quantiles", "statistics")}
        return {**rest, "boundaries": boundaries}

    def _numbers(self, file: Any, feature: Any, path: Path) -> Numbers:
        statistics = self._file(file, path)
        if feature not in statistics.features:
            hint = did_you_mean(feature, statistics.features)
            raise ProblemError(path, f"{file!r} has no feature {feature!r}{hint}")
        numbers: Optional[Numbers] = statistics.features[feature].numbers
        if numbers is None:
            dtype = statistics.features[feature].dtype
            got = f"is a {dtype}" if dtype == "string" else "has no value"
            raise ProblemError(path, f"feature {feature!r} in {file!r} {got}, expected numbers")
        if numbers.stddev == 0 or numbers.min == numbers.max:
            raise ProblemError(
                path,
                f"all values of feature {feature!r} in {file!r} are {numbers.min}, so the model "
                "cannot learn from it. List it under `ignored`, or set the numbers.",
            )
        return numbers

    def _file(self, file: Any, path: Path) -> Statistics:
        file_path = inside(self._directory, file) if isinstance(file, str) else None
        if file_path is None:
            raise ProblemError(
                path,
                f"got {value_text(file)}, expected a path below the folder of the spec, "
                f"{str(self._directory)!r}",
            )
        if file not in self._files:
            try:
                self._files[file] = load(file_path)
            except StatisticsError as error:
                raise ProblemError(path, str(error)) from error
        return self._files[file]
