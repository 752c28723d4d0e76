"""Refreshes the vocabulary and statistics files of an existing spec, but not the spec itself.

It refreshes the files of vocabulary columns, the files with their counts, and the statistics files
that the spec names (`statistics.json` in the spec's folder if it names no such file). They are
written only after the spec was loaded with them, each first under a temporary name. The report says
what changed. If words in a vocabulary move, their ids change: a model that was trained with the old
vocabulary does not fit the new one.
"""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

import feature_specs
from feature_specs import statistics as statistics_file
from feature_specs.errors import counted
from feature_specs.feature import Feature
from feature_specs.kinds import Vocabulary
from feature_specs.kinds.vocabulary import read_words
from feature_specs.label import Label
from feature_specs.parser.yaml_reader import read_text
from feature_specs.spec import FeatureSpec
from feature_specs.statistics import FeatureStatistics, Statistics, StatisticsError
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import folder
from input_pipelines.prepare.analyze.columns import STATISTICS_FILE, percent
from input_pipelines.prepare.analyze.first_spec import words_of
from input_pipelines.prepare.analyze.numbers import with_commas
from input_pipelines.prepare.analyze.scan import OnProgress, scan
from input_pipelines.prepare.analyze.summary import RecordSummary
from input_pipelines.prepare.convert.fields import names_of_lists
from input_pipelines.prepare.tables.options import CsvOptions

_EXAMPLES = 5


def refresh(
    spec_path: str,
    files: Sequence[str],
    *,
    min_count: int = 5,
    csv: CsvOptions = CsvOptions(),
    beam: Optional[Sequence[str]] = None,
    on_progress: OnProgress = lambda rows, done, groups: None,
    summary: Optional[Callable[[], RecordSummary]] = None,
) -> str:
    """Analyzes TFRecord files or the files of a table, and refreshes the files of a spec.

    Only records that the spec's filter keeps count. Columns of text are read with the types in the
    spec. `beam` has flags of an Apache Beam
    pipeline that reads the files, and `on_progress` is called as they are read; see `scan`. With
    `summary`, which returns the summary of a scan, the files are not read. Returns a
    report of the changes.

    Raises:
      BeamFlagsError: a pipeline cannot be made with the flags. Nothing was written.
      SpecError: the spec cannot be loaded, or could not be loaded with the new files.
      DataError: the records cannot be used, or do not fit the spec.
      FolderError: the path of the statistics file has another kind of file.
    """
    path = pathlib.Path(spec_path)
    spec = feature_specs.load(path)
    entries: dict[str, Union[Feature, Label]] = {**spec.features, **spec.labels}
    dtypes = {name: entry.dtype for name, entry in entries.items()}
    if summary is not None:
        record_summary = summary()
    else:
        lists = names_of_lists(spec)
        record_summary = scan(
            files,
            csv=csv,
            dtypes=dtypes,
            lists=lists,
            conditions=spec.conditions,
            beam=beam,
            on_progress=on_progress,
        )
    statistics = record_summary.statistics(len(files))
    _check_types(spec, statistics)
    report = [f"{spec_path}: {statistics.population} of {counted(statistics.files, 'file')}"]
    texts: dict[str, str] = {}
    for file, of_file in _columns_by_file(spec).items():
        features = list(dict.fromkeys(column.source for column in of_file.values()))
        new = words_of(record_summary, features, min_count)
        if not new.words:
            names = " or ".join(map(repr, features))
            raise DataError(
                f"columns.{next(iter(of_file))}: no word of feature {names} occurs {min_count} "
                f"times in the records, so {file!r} would be empty; lower --min_count, or pass "
                "more files"
            )
        old = read_words(next(iter(of_file.values())).path(spec))
        report += _word_changes(file, old, [word for word, _ in new.words], new.exact)
        texts[file] = new.vocabulary_text()
        texts[f"{file.removesuffix('.txt')}.counts.tsv"] = new.counts_text()
    for name in _statistics_files(path):
        report += _statistics_changes(path.parent / name, name, statistics)
        texts[name] = statistics.as_text()
    unknown = [n for n in statistics.features if n not in {*spec.features, *spec.labels}]
    if unknown:
        report.append(f"  not in the spec: {', '.join(unknown)}")
    report += [f"  note: {note}" for note in record_summary.notes]
    _check_loads(path, texts)
    folder.refresh(path.parent, texts)
    return "\n".join(report)


def _columns_by_file(spec: FeatureSpec) -> dict[str, dict[str, Vocabulary]]:
    """The columns of each vocabulary file. A file has the words of all features that use it."""
    by_file: dict[str, dict[str, Vocabulary]] = {}
    for name, column in spec.of_kind(Vocabulary).items():
        if column.file is not None:
            by_file.setdefault(column.file, {})[name] = column
    return by_file


def _check_types(spec: FeatureSpec, statistics: Statistics) -> None:
    """Checks that the records' features have the types in the spec."""
    entries: list[tuple[str, Union[Feature, Label]]] = [
        *spec.features.items(),
        *spec.labels.items(),
    ]
    for name, entry in entries:
        feature = statistics.features.get(name)
        if feature is not None and feature.dtype not in (None, entry.dtype):
            raise DataError(
                f"feature {name!r} is {feature.dtype} in the records, but {entry.dtype} in the "
                f"spec {spec.source}; correct the spec"
            )
        listed = getattr(entry, "feature_list", False)
        if feature is not None and listed != (feature.odd_steps is not None):
            raise DataError(
                f"{name!r} is {'not ' * listed}a feature list in the records, but "
                f"{'not ' * (not listed)}in the spec {spec.source} (feature_list: true); correct "
                "the spec, or pass files that fit it"
            )
    for column in spec.of_kind(Vocabulary).values():
        if column.file is not None:
            feature = statistics.features.get(column.source)
            if feature is None or not feature.values:
                raise DataError(
                    f"no record has a value of feature {column.source!r}, so its vocabulary "
                    f"{column.file!r} cannot be refreshed"
                )


def _statistics_files(path: pathlib.Path) -> list[str]:
    """The statistics files that a spec names under the key `statistics`, in its order."""

    def walk(value: Any) -> Iterator[str]:
        if isinstance(value, Mapping):
            if isinstance(value.get("statistics"), str):
                yield value["statistics"]
            for part in value.values():
                yield from walk(part)
        elif isinstance(value, list):
            for part in value:
                yield from walk(part)

    document, _ = read_text(path.read_text(encoding="utf-8"), str(path))
    return list(dict.fromkeys(walk(document["columns"]))) or [STATISTICS_FILE]


def _check_loads(path: pathlib.Path, texts: Mapping[str, str]) -> None:
    """Loads the spec with the new files in a temporary folder."""
    with tempfile.TemporaryDirectory() as temporary:
        place = pathlib.Path(temporary)
        for name, text in {**texts, path.name: path.read_text(encoding="utf-8")}.items():
            target = place / os.path.normpath(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
        feature_specs.load(place / path.name)


# --- What changed --------------------------------------------------------------------------------


def _word_changes(file: str, old: list[str], new: list[str], exact: bool) -> list[str]:
    before = {word: i for i, word in enumerate(old)}
    after = {word: i for i, word in enumerate(new)}
    added = [word for word in new if word not in before]
    dropped = [word for word in old if word not in after]
    moved = [
        f"{word} {before[word]} -> {after[word]}"
        for word in new
        if word in before and before[word] != after[word]
    ]
    about = "" if exact else " (by estimated counts)"
    if not (added or dropped or moved):
        return [f"  {file}: {len(new):,} words, unchanged{about}"]
    lines = [f"  {file}: {len(old):,} -> {len(new):,} words{about}"]
    for what, words in (("added", added), ("dropped", dropped), ("moved", moved)):
        if words:
            more = ", ..." if len(words) > _EXAMPLES else ""
            lines.append(f"    {what}: {len(words):,}: {', '.join(words[:_EXAMPLES])}{more}")
    if dropped or moved:
        lines.append("    ids have a new meaning: models that were trained before do not fit")
    return lines


def _statistics_changes(path: pathlib.Path, name: str, new: Statistics) -> list[str]:
    try:
        old = statistics_file.load(path)
    except StatisticsError as error:
        if path.exists():
            raise folder.FolderError(f"{error}; move the file away") from error
        return [f"  {name}: new"]
    lines = []
    for feature in sorted({*old.features, *new.features}):
        was, now = (_figures(s.features.get(feature), s.rows) for s in (old, new))
        if now is None or was is None:
            lines.append(f"    {feature}: {'gone' if now is None else 'new'}")
            continue
        keys = [key for key in dict.fromkeys([*was, *now]) if was.get(key) != now.get(key)]
        if keys:
            changes = [f"{key} {was.get(key, 'none')} -> {now.get(key, 'none')}" for key in keys]
            lines.append(f"    {feature}: {', '.join(changes)}")
    if old.rows != new.rows:
        lines.insert(0, f"    records {old.rows:,} -> {new.rows:,}")
    return [f"  {name}:", *lines] if lines else [f"  {name}: unchanged"]


def _figures(statistics: Optional[FeatureStatistics], rows: int) -> Optional[dict[str, str]]:
    """The numbers of a feature that a person compares."""
    if statistics is None:
        return None
    figures = {
        "type": json.dumps(statistics.dtype),
        "missing": percent(statistics.missing, rows),
        "different values": f"{statistics.cardinality.value:,}",
    }
    if statistics.numbers is not None:
        for key in ("min", "max", "mean", "stddev"):
            figures[key] = with_commas(getattr(statistics.numbers, key))
    return figures
