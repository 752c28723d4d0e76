"""Writes a first spec from records: reads them once, then writes all files of the analysis folder.

    first = first_spec.write(["a.tfrecord"], labels=["click"], directory="analysis")
    print(first.report)

The folder has `spec.yaml`, `statistics.json`, and for each feature with categories
`vocabularies/<feature>.txt` and `.counts.tsv`. The spec is loaded as a test before any file gets
its name.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Optional

import feature_specs
from feature_specs.errors import counted
from feature_specs.statistics import Statistics
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import (
    columns,
    field_columns,
    folder,
    report,
    roles,
    spec_text,
)
from input_pipelines.prepare.analyze import labels as label_rules
from input_pipelines.prepare.analyze.columns import STATISTICS_FILE, VOCABULARY_FOLDER
from input_pipelines.prepare.analyze.decisions import Decisions, decide
from input_pipelines.prepare.analyze.overrides import NO_OVERRIDES, Overrides
from input_pipelines.prepare.analyze.overrides import check as check_overrides
from input_pipelines.prepare.analyze.scan import OnProgress, scan
from input_pipelines.prepare.analyze.summary import RecordSummary
from input_pipelines.prepare.analyze.values import EXACT_LIMIT
from input_pipelines.prepare.analyze.vocabularies import (
    VocabularyWords,
    choose_words,
    min_count_of_items,
)
from input_pipelines.prepare.convert.options import NEXT
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.record_files import kinds

SPEC_FILE = "spec.yaml"

# The columns of each group, by its name.
Groups = Mapping[str, Sequence[str]]


@dataclasses.dataclass(frozen=True)
class FirstSpec:
    """What an analysis wrote.

    Attributes:
      path: the spec.
      report: the text for the user.
      statistics: of all records.
      heads: the head of each label's objective.
      groups: the columns of each group.
      roles: which features name persons, queries and items.
      times: the format of each feature of dates or times.
    """

    path: pathlib.Path
    report: str
    statistics: Statistics
    heads: Mapping[str, str]
    groups: Groups
    roles: roles.Roles
    times: Mapping[str, str]


def write(
    files: Sequence[str],
    *,
    labels: Sequence[str],
    directory: str,
    min_count: int = 5,
    exact_limit: int = EXACT_LIMIT,
    csv: CsvOptions = CsvOptions(),
    overrides: Overrides = NO_OVERRIDES,
    beam: Optional[Sequence[str]] = None,
    on_progress: OnProgress = lambda rows, done, groups: None,
    keep: Collection[str] = (),
    converted: Optional[str] = None,
) -> FirstSpec:
    """Analyzes TFRecord files or the files of a table, and writes the folder.

    Args:
      files: paths, in the order in which they are read.
      labels: the features to learn.
      directory: the folder. It must be new, empty, or unchanged since an earlier analysis.
      min_count: words that occur less often are not put into a vocabulary.
      exact_limit: how many different values of a feature are counted exactly.
      csv: how CSV files are written.
      overrides: the user's decisions about features.
      beam: flags of an Apache Beam pipeline that reads the files; see `scan`.
      on_progress: see `scan`.
      keep: files of an earlier analysis that stay in the folder.
      converted: a folder. If it has records, they belong to the spec of an earlier analysis.

    Raises:
      BeamFlagsError: a pipeline cannot be made with the flags. Nothing was written.
      DataError: the records cannot be used. Nothing was written.
      FolderError: the folder has other files, or another spec than `converted`. Nothing was
        written.
    """
    target = pathlib.Path(directory)
    folder.check(target)  # Fail now, not after an hour.
    summary = scan(
        files, exact_limit=exact_limit, csv=csv, sample=True, beam=beam, on_progress=on_progress
    )
    if kinds.kind_of_all(files) == kinds.TFRECORD:  # Conversion leaves missing values out.
        summary.check_empty_lists()
    statistics = summary.statistics(len(files))
    label_rules.check_labels(labels, statistics)
    check_overrides(
        overrides,
        labels,
        statistics.features,
        {n: [w for w, _ in _all_words(summary, n)] for n in overrides.numeric},
    )
    decisions = decide(summary, statistics, labels, overrides)
    items = {label_rules.items_of(label, statistics) for label in labels}
    words = {
        name: (
            _words_of_items(summary, name, min_count)
            if name in items
            else words_of(summary, [name], min_count)
        )
        for name, kind in decisions.kinds.items()
        if kind.category
    }
    choices = _choices(summary, statistics, decisions, words, overrides)
    if not any(choice.columns for choice in choices.values()):
        raise DataError(
            "apart from the labels, the records have no feature that can be used"
            + ("".join(f"; {n}: {c.why}" for n, c in choices.items()))
        )
    choices, steps = label_rules.with_steps(choices, labels, statistics)
    found = roles.recognized(statistics, labels, _codes(summary))
    queries = {
        label: found.query
        for label in labels
        if found.query and label_rules.is_ranking(label, statistics, found.query)
    }
    for query in queries.values():
        choices[query] = dataclasses.replace(choices[query], **_NO_COLUMNS, why=report.IS_GROUP)
    largest_ids = _largest_ids(choices, statistics)
    choices = field_columns.with_fields(choices, largest_ids, statistics.rows)
    text_cells = kinds.kind_of_all(files) in (kinds.CSV, kinds.SVMLIGHT)
    entries = [
        _entries(label, summary, statistics, choices, queries, text_cells=text_cells)
        for label in labels
    ]
    warnings = [
        warning
        for label, (_, objective) in zip(labels, entries)
        for warning in label_rules.warnings_of(
            label, statistics.features[label], statistics.rows, _all_words(summary, label),
            objective.value["head"],
        )
    ]  # fmt: skip
    heading = (
        f"A first spec, which --mode=analyze made from {counted(statistics.rows, 'record')} of "
        f"{counted(len(files), 'file')}. Each choice follows a rule of thumb, and its comment "
        "gives the reason. Read the comments, change what you know better, convert the files if "
        "they are tables, then train."
    )
    towers = _towers(found, choices, labels)
    if not towers:  # Towers are scaled to length 1, so the size of their input does not matter.
        choices = field_columns.starting_small(choices)
    text = spec_text.spec_text(
        choices,
        entries,
        heading=heading,
        step_groups=[*summary.step_groups(), *([steps] if steps else [])],
        tables=summary.csv.flags if kinds.kind_of_all(files) == kinds.CSV else None,
        more_groups=towers,
    )
    texts = {SPEC_FILE: text, STATISTICS_FILE: statistics.as_text()}
    for name, chosen in words.items():
        choice = choices.get(name)
        if name in queries.values() or not chosen.words or choice is None or choice.time:
            continue
        if choice.feature is not None:
            texts[f"{VOCABULARY_FOLDER}/{name}.txt"] = chosen.vocabulary_text()
            texts[f"{VOCABULARY_FOLDER}/{name}.counts.tsv"] = chosen.counts_text()
    check_loads(texts)
    _check_same(target / SPEC_FILE, text, converted)
    folder.publish(target, texts, keep=keep)
    groups = {
        group: [name for choice in choices.values() for name in getattr(choice, group)]
        for group in ("wide", "deep", "fields", "steps")
    }
    used = [name for name, choice in choices.items() if choice.columns]
    first = (
        f"{target / SPEC_FILE}: {counted(len(used), 'feature')} and "
        f"{counted(len(labels), 'label')}, from {counted(statistics.rows, 'record')} of "
        f"{counted(statistics.files, 'file')}"
    )
    return FirstSpec(
        path=target / SPEC_FILE,
        report="\n".join([first, *report.lines(choices, decisions, summary.notes, warnings)]),
        statistics=statistics,
        heads={label: objective.value["head"] for label, (_, objective) in zip(labels, entries)},
        groups={name: names for name, names in groups.items() if names},
        roles=found,
        times={name: choice.time.format for name, choice in choices.items() if choice.time},
    )


def _codes(summary: RecordSummary) -> Optional[roles.Sample]:
    """The rows of the summary's sample, if it has one."""
    sample = getattr(summary, "sample", None)
    return {n: c.codes for n, c in sample.columns().items()} if sample is not None else None


_NO_COLUMNS: Any = {"columns": (), "wide": (), "deep": ()}


def _largest_ids(choices: Mapping[str, columns.Choice], statistics: Statistics) -> int:
    """The most different values of a feature that has an embedding."""
    return max(
        (
            statistics.features[name].cardinality.value
            for name, choice in choices.items()
            # A time has as many ids as hours.
            if any("embedding" in entry.value for entry in choice.columns) and not choice.time
        ),
        default=0,
    )


def _towers(
    found: roles.Roles, choices: Mapping[str, columns.Choice], labels: Sequence[str]
) -> dict[str, tuple[list[str], str]]:
    """The groups `user` and `item` of the model two_tower, with their comments."""
    groups = {}
    for group, key, others in (
        ("user", found.person, found.of_person),
        ("item", found.item, found.of_item),
    ):
        features = [name for name in (key, *others) if name is not None and name in choices]
        names = [column for name in features for column in choices[name].deep]
        if key is None or key not in choices or not choices[key].deep:
            return {}
        belong = "and what is the same in all its rows" if len(features) > 1 else "alone"
        groups[group] = names, f"what two_tower reads of the {group}: {key} {belong}"
    names, why = groups["item"]
    hint = (
        f". Train it with --model=two_tower --model_params=item_id={found.item} "
        f"--best_metric=recall_at_10/{labels[0]}, because its scores are not probabilities"
    )
    return {**groups, "item": (names, why + hint)}


def _choices(
    summary: RecordSummary,
    statistics: Statistics,
    decisions: Decisions,
    words: Mapping[str, VocabularyWords],
    overrides: Overrides,
) -> dict[str, columns.Choice]:
    """The choice for each feature. Leaks are used if there is nothing else to use."""
    names = frozenset(statistics.features)

    def choose(name: str, unwanted: str) -> columns.Choice:
        return columns.choose(
            name,
            statistics.features[name],
            statistics.rows,
            decisions.kinds.get(name),
            words.get(name),
            names,
            _counts(summary, name),
            unwanted=unwanted,
            wanted=name in overrides.used,
        )

    features = [name for name in statistics.features if name not in decisions.labels]
    choices = {name: choose(name, decisions.unwanted(name, overrides)) for name in features}
    if not any(choice.columns for choice in choices.values()):
        leaks = [name for name in decisions.leaks if name not in overrides.ignore]
        choices.update((name, choose(name, "")) for name in leaks)
    return choices


def _check_same(path: pathlib.Path, text: str, converted: Optional[str]) -> None:
    """Checks that a folder of records does not belong to another spec than the new one."""
    if converted is None or not path.exists() or path.read_text(encoding="utf-8") == text:
        return
    if os.path.isdir(converted) and os.listdir(converted):
        raise folder.FolderError(
            f"{str(path)!r} would change, and {converted!r} has the records of the spec as it is; "
            "name a new --analysis_dir and a new --convert_dir"
        )


def _entries(
    label: str,
    summary: RecordSummary,
    statistics: Statistics,
    choices: Mapping[str, columns.Choice],
    queries: Mapping[str, str],
    *,
    text_cells: bool,
) -> tuple[columns.Entry, columns.Entry]:
    """The entries of a label under `labels` and `objectives`."""
    if label in queries:
        return label_rules.ranking_entries(label, queries[label], statistics)
    items = label_rules.items_of(label, statistics)
    if items is not None:
        repeats = summary.features[label].repeats
        return label_rules.next_item_entries(
            label, items, statistics, choices[items], repeats=repeats
        )
    return label_rules.label_entries(
        label,
        statistics.features[label],
        statistics.rows,
        _all_words(summary, label),
        text_cells=text_cells,
    )


def _words_of_items(summary: RecordSummary, name: str, min_count: int) -> VocabularyWords:
    """The words of a feature and of the next items that follow it, with the feature's counts."""
    both = [name, f"{NEXT}{name}"]
    every = words_of(summary, both, 1)
    least = min_count_of_items((count for _, count in every.words), min_count)
    chosen, own = words_of(summary, both, least), dict(_all_words(summary, name))
    ordered = sorted((-own.get(word, 0), word) for word, _ in chosen.words)
    return dataclasses.replace(chosen, words=tuple((word, -count) for count, word in ordered))


def words_of(summary: RecordSummary, names: Sequence[str], min_count: int) -> VocabularyWords:
    """The words for the vocabulary file of one feature, or of several that share the file."""
    counts: Counter[str] = Counter()
    for name in names:
        feature = summary.features[name]
        single = feature.longest <= 1 and not feature.is_feature_list
        # The value of a single integer that is missing.
        missing = "-1" if feature.dtype == "int64" and single else ""
        counts.update({word: n for word, n in _all_words(summary, name) if word != missing})
    counters = [summary.features[name].counter for name in names]
    return choose_words(
        sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])),
        min_count,
        exact=all(counter is None or counter.exact is not None for counter in counters),
    )


def _all_words(summary: RecordSummary, name: str) -> list[tuple[str, int]]:
    feature = summary.features.get(name)
    counter = None if feature is None else feature.counter
    return counter.words() if counter is not None else []


def _counts(summary: RecordSummary, name: str) -> Optional[Mapping[Any, int]]:
    """How often each value of a feature occurs, as words or numbers; None for too many numbers."""
    if summary.features[name].dtype == "string":
        return dict(_all_words(summary, name))
    return summary.features[name].value_counts


def check_loads(texts: dict[str, str]) -> None:
    """Writes the files to a temporary folder and loads the spec from there, as a test."""
    with tempfile.TemporaryDirectory() as temporary:
        place = pathlib.Path(temporary)
        for name, text in texts.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(text.encode())
        feature_specs.load(place / SPEC_FILE)
