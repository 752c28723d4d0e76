"""refresh: the files of an existing spec are written again, and the report names the changes."""

from __future__ import annotations

import pytest

import feature_specs
from feature_specs import statistics
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import first_spec, refresh
from input_pipelines.prepare.analyze.folder import FolderError
from input_pipelines.record_files import writing


def rows(cities, start=0):
    return [{"click": i % 2, "city": city, "age": start + i} for i, city in enumerate(cities)]


OLD = rows(["rome"] * 9 + ["oslo"] * 8 + ["lima"] * 7)
NEW = rows(["oslo"] * 9 + ["rome"] * 8 + ["bonn"] * 60, start=100)


@pytest.fixture
def place(tmp_path):
    writing.write_examples(f"{tmp_path}/old.tfrecord", OLD * 3)
    writing.write_examples(f"{tmp_path}/new.tfrecord", NEW)
    first_spec.write(
        [f"{tmp_path}/old.tfrecord"], labels=["click"], directory=str(tmp_path / "a"), min_count=3
    )
    return tmp_path


def renew(place, file="new.tfrecord", **options):
    return refresh.refresh(f"{place}/a/spec.yaml", [f"{place}/{file}"], **options)


def test_the_files_are_renewed_and_the_changes_told(place):
    text = (place / "a" / "spec.yaml").read_text()
    report = renew(place, min_count=1)
    lines = report.splitlines()
    assert lines[0] == f"{place}/a/spec.yaml: 77 records of 1 file"
    at = lines.index("  vocabularies/city.txt: 3 -> 3 words")
    assert lines[at + 1 : at + 5] == [
        "    added: 1: bonn",
        "    dropped: 1: lima",
        "    moved: 1: rome 0 -> 2",
        "    ids have a new meaning: models that were trained before do not fit",
    ]
    assert "    records 72 -> 77" in lines
    (changed,) = [line for line in lines if line.startswith("    age:")]
    # Before: 0 to 23, each three times. Now: 100 to 176.
    assert changed == (
        "    age: different values 24 -> 77, min 0 -> 100, max 23 -> 176, mean 11.5 -> 138, "
        "stddev 6.92219 -> 22.2261"
    )
    assert (place / "a" / "vocabularies" / "city.txt").read_text() == "bonn\noslo\nrome\n"
    assert (place / "a" / "spec.yaml").read_text() == text
    assert statistics.load(place / "a" / "statistics.json").rows == 77
    assert feature_specs.load(place / "a" / "spec.yaml").columns["city"].size == 3


def test_the_same_records_change_nothing(place):
    report = renew(place, "old.tfrecord", min_count=3)
    assert report.splitlines()[1:] == [
        "  vocabularies/age.txt: 24 words, unchanged",
        "  vocabularies/city.txt: 3 words, unchanged",
        "  statistics.json: unchanged",
    ]


def test_after_a_refresh_the_folder_is_still_analysis_own(place):
    renew(place, min_count=1)
    first_spec.write(
        [f"{place}/new.tfrecord"], labels=["click"], directory=str(place / "a"), min_count=3
    )


def test_a_handwritten_spec(place):
    folder = place / "mine"
    folder.mkdir()
    (folder / "words.txt").write_text("rome\n")
    first = statistics.load(place / "a" / "statistics.json")
    (folder / "s.json").write_text(first.as_text())
    text = """
features: {city: {dtype: string}, age: {dtype: int64}}
columns:
  city: {vocabulary: city, file: words.txt}
  age_z: {numeric: age, normalizer: [{zscore: {statistics: s.json}}]}
groups: {wide: [city], deep: [age_z]}
labels: {click: {dtype: int64}}
objectives: {click: {head: binary}}
"""
    (folder / "spec.yaml").write_text(text)
    report = refresh.refresh(f"{folder}/spec.yaml", [f"{place}/new.tfrecord"], min_count=9)
    assert "  words.txt: 1 -> 2 words" in report
    assert sorted(p.name for p in folder.iterdir()) == [
        "s.json", "spec.yaml", "words.counts.tsv", "words.txt"
    ]  # fmt: skip
    spec = feature_specs.load(folder / "spec.yaml")
    assert spec.columns["age_z"].normalizer[0].zscore.mean == 138.0


def test_a_file_has_the_words_of_all_features_that_use_it(tmp_path):
    """As a target and a history of items, whose embeddings share a table."""
    spec = """
features: {item: {dtype: int64, default: -1}, seen: {dtype: int64, shape: variable}}
embedding_tables: {items: {dimension: 2}}
columns:
  item: {vocabulary: item, file: items.txt}
  seen: {vocabulary: seen, file: items.txt}
  item_emb: {embedding: item, table: items}
  seen_emb: {embedding: seen, table: items}
groups: {deep: [item_emb, seen_emb]}
labels: {click: {dtype: int64}}
objectives: {click: {head: binary}}
"""
    (tmp_path / "spec.yaml").write_text(spec)
    (tmp_path / "items.txt").write_text("7\n")
    # 7 occurs 3 times, 8 twice in each feature, 9 once, and 5 three times as seen. As an item, -1
    # means missing. As a value of a list it does not.
    records = [([7], [8, 8, -1]), ([7], [5, 5, 5]), ([8], [7]), ([8], [-1]), ([9], []), ([-1], [])]
    writing.write_examples(
        f"{tmp_path}/new.tfrecord",
        [{"click": 1, "item": item, "seen": seen} for item, seen in records],
    )
    report = refresh.refresh(f"{tmp_path}/spec.yaml", [f"{tmp_path}/new.tfrecord"], min_count=2)
    assert (tmp_path / "items.counts.tsv").read_text() == "8\t4\n5\t3\n7\t3\n-1\t2\n"
    assert (tmp_path / "items.txt").read_text() == "8\n5\n7\n-1\n"
    assert "  items.txt: 1 -> 4 words" in report
    with pytest.raises(DataError) as error:
        refresh.refresh(f"{tmp_path}/spec.yaml", [f"{tmp_path}/new.tfrecord"], min_count=9)
    assert str(error.value) == (
        "columns.item: no word of feature 'item' or 'seen' occurs 9 times in the records, so "
        "'items.txt' would be empty; lower --min_count, or pass more files"
    )


def contents(place):
    return {p: p.read_bytes() for p in (place / "a").rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    "rows, min_count, message",
    [
        (NEW, 100, "columns.age: no word of feature 'age' occurs 100 times in the records, so "
         "'vocabularies/age.txt' would be empty; lower --min_count, or pass more files"),
        ([{"click": 1, "city": 3, "age": 1}], 1,
         "feature 'city' is int64 in the records, but string in the spec {}/a/spec.yaml; correct "
         "the spec"),
        ([{"click": 1, "age": 3}], 1,
         "no record has a value of feature 'city', so its vocabulary 'vocabularies/city.txt' "
         "cannot be refreshed"),
    ],
)  # fmt: skip
def test_records_that_do_not_fit(place, rows, min_count, message):
    before = contents(place)
    writing.write_examples(f"{place}/bad.tfrecord", rows)
    with pytest.raises(DataError) as error:
        renew(place, "bad.tfrecord", min_count=min_count)
    assert str(error.value) == message.format(place)
    assert contents(place) == before


def test_files_with_which_the_spec_would_not_load(place):
    path = place / "a" / "spec.yaml"
    file = 'file: "vocabularies/city.txt", '
    path.write_text(path.read_text().replace(file, f"{file}size: 3, "))
    before = contents(place)
    fewer = [{"click": 1, "city": "oslo", "age": age} for age in (3, 4)]
    writing.write_examples(f"{place}/fewer.tfrecord", fewer)
    with pytest.raises(feature_specs.SpecError, match=r"columns\.city\.size: got 3, but .* has 1"):
        renew(place, "fewer.tfrecord", min_count=1)
    assert contents(place) == before


def test_a_file_in_the_way_is_left_alone(place):
    (place / "a" / "statistics.json").write_text("[1]")
    (place / "a" / "spec.yaml").write_text("""
features: {city: {dtype: string}}
columns: {city: {vocabulary: city, list: [rome]}}
groups: {wide: [city]}
labels: {click: {dtype: int64}}
objectives: {click: {head: binary}}
""")
    with pytest.raises(FolderError, match=r"statistics\.json: .* move the file away"):
        renew(place)
    assert (place / "a" / "statistics.json").read_text() == "[1]"


def test_features_that_the_spec_does_not_know_are_named(place):
    writing.write_examples(f"{place}/more.tfrecord", [{**row, "extra": 1.5} for row in OLD])
    assert "  not in the spec: extra" in renew(place, "more.tfrecord", min_count=1)
