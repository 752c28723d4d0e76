"""first_spec: each kind of feature gets columns by the rules, with reasons. The spec loads and
trains. Files that analysis did not write are never overwritten."""

from __future__ import annotations

import json
import math
import os
import random

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import feature_specs
from feature_specs import statistics
from feature_specs.parser.yaml_reader import read_text
from input_pipelines import input_fns
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import first_spec, folder
from input_pipelines.prepare.analyze.vocabularies import choose_words
from input_pipelines.record_files import writing


def read_counts(text):
    """The counts in a `.counts.tsv` by word, read as a user's program would do it."""
    counts = {}
    for line in text.split("\n"):  # Not splitlines: a word may contain another kind of line break.
        word, tab, count = line.rpartition("\t")
        if tab:
            counts[word] = int(count)
    return counts


def make_rows(count=2000):
    rng = random.Random(1)
    rows = []
    for i in range(count):
        rows.append({
            "click": int(rng.random() < 0.25),
            "stars": i % 5,
            "city": rng.choice(["rome", "oslo", "lima"]) if i % 10 else None,
            "user": f"user {int(rng.paretovariate(0.7))}",
            "session": f"s{i}",
            "price": rng.lognormvariate(3, 2),
            "age": rng.randint(18, 90),
            "height": rng.gauss(170, 10) if i % 4 else None,
            "hour": i % 24,
            "item_id": rng.randint(0, 400),
            "history": [rng.randint(0, 99) for _ in range(i % 4)],
            "vector": [rng.gauss(0, 1), rng.gauss(0, 1), rng.gauss(5, 1)],
            "ragged": [i / 7] * (i % 3),
            "always": "on",
            "odd words": "x",
            "no": rng.choice(["a", "b # c", "d\ne", ""]),
            "never": [],
            "gain": 1 + i * 7 % 5000 if i % 20 == 0 else 0,
        })  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    place = tmp_path_factory.mktemp("records")
    rows = make_rows()
    paths = [f"{place}/a.tfrecord", f"{place}/b.tfrecord.gz"]
    writing.write_examples(paths[0], rows[:1500])
    writing.write_examples(paths[1], rows[1500:])
    return paths


@pytest.fixture(scope="module")
def analysis(files, tmp_path_factory):
    place = tmp_path_factory.mktemp("out") / "analysis"
    report = first_spec.write(files, labels=["click", "stars"], directory=str(place)).report
    return place, report


def entries(place):
    """Each entry of the spec by (section, name): its YAML line, and the comment above it."""
    found, comment, section = {}, [], None
    for line in (place / "spec.yaml").read_text().splitlines():
        text = line.strip()
        if text.startswith("#"):
            comment.append(text[2:])
            continue
        if line and not line.startswith(" "):
            section = text.rstrip(":")
        name = text.lstrip("- ").partition(":")[0].strip('"')
        found[section, name] = (text, " ".join(comment))
        comment = []
    return found


def columns_of(place):
    return read_text((place / "spec.yaml").read_text(), "spec")[0]["columns"]


def test_the_columns_by_the_rules(analysis):
    place, _ = analysis
    columns = columns_of(place)
    scaled = {"zscore": {"statistics": "statistics.json"}}
    tenths = {"quantiles": 10, "statistics": "statistics.json"}

    def vocabulary(name, oov=1):
        return {"vocabulary": name, "file": f"vocabularies/{name}.txt", "oov_buckets": oov}

    assert columns["city"] == vocabulary("city")
    assert columns["city_hot"] == {"indicator": "city"}
    assert columns["hour"] == vocabulary("hour")
    assert columns["hour_emb"] == {"embedding": "hour", "dimension": 8}
    assert columns["item_id"]["vocabulary"] == "item_id"
    assert columns["history"]["vocabulary"] == "history"
    assert columns["price_scaled"] == {"numeric": "price", "normalizer": "log1p"}
    assert columns["price_bucket"] == {"bucketized": "price", **tenths}
    # A number that some records lack: the median in its place, and columns that know it.
    heights = sorted(row["height"] for row in make_rows() if row["height"] is not None)
    median = float(np.float32(heights[len(heights) // 2 - 1]))
    assert columns["height_scaled"] == {
        "numeric": "height", "missing": median, "normalizer": scaled,
    }  # fmt: skip
    assert columns["height_bucket"] == {"bucketized": "height", **tenths, "missing": "own_bucket"}
    assert columns["height_missing"] == {"is_missing": "height"}
    assert columns["age_scaled"] == {"numeric": "age", "normalizer": scaled}
    assert columns["vector_scaled"] == {"numeric": "vector", "normalizer": scaled}
    assert "vector_bucket" not in columns
    # 95% are 0: they get a bucket, and the rest is cut into ten.
    gains = sorted(row["gain"] for row in make_rows() if row["gain"])
    assert columns["gain_bucket"] == {
        "bucketized": "gain", "boundaries": [gains[0], *gains[9:90:10]],
    }  # fmt: skip
    spec = feature_specs.load(place / "spec.yaml")
    assert spec.ignored == ("always", "ragged", "session")
    assert spec.features["height"].default == -1.0  # No record has it.
    assert spec.features["city"].default == "" and spec.features["user"].default is None
    assert spec.features["vector"].shape == (3,) and spec.features["history"].variable
    # Its names say that `user` is a person and `item_id` an item.
    assert set(spec.groups) == {"wide", "deep", "fields", "user", "item"}
    assert (spec.groups["user"], spec.groups["item"]) == (("user_emb",), ("item_id_emb",))
    fields = [columns[name] for name in spec.groups["fields"]]
    assert {entry["dimension"] for entry in fields} == {8}
    assert [entry["embedding"] for entry in fields] == [
        "age_bucket", "city", "gain_bucket", "height_bucket", "history", "hour", "item_id", "no",
        "price_bucket", "user",
    ]  # fmt: skip


def test_every_entry_says_why(analysis):
    place, _ = analysis
    found = entries(place)
    spec = feature_specs.load(place / "spec.yaml")
    for section in ("features", "columns", "labels", "objectives"):
        for name in getattr(spec, section):
            assert len(found[section, name][1]) > 5, name

    def why(section, name):
        return found[section, name][1]

    assert (
        why("features", "city")
        == 'missing in 10% of the records; they get the empty string "", which means missing'
    )
    assert why("columns", "city") == (
        "3 different values; a vocabulary, because 3 frequent values cover 100% of all values; "
        "all new values share one extra id"
    )
    assert why("columns", "hour_emb") == (
        "all embeddings of the groups deep and fields have one dimension: the fourth root of "
        f"{len({row['item_id'] for row in make_rows()}):,} categories, 4.5, rounded up to a power "
        "of two, 4 to 16"
    )
    assert why("columns", "hour").startswith(
        "only 24 different integers; a vocabulary, because 24 "
    )
    assert why("columns", "item_id").startswith("its name says that it is an id or a code; 400 ")
    assert why("features", "history") == (
        "0 to 3 values, 1.5 on average; empty in 25% of the records"
    )
    price = why("columns", "price_scaled")
    assert "a long tail to the right and nothing below 0, so log1p" in price
    assert why("ignored", "always") == "every value is the same, 'on'"
    assert why("ignored", "session").startswith("2,000 different values in 2,000 records: a key")
    assert why("objectives", "stars").startswith("a guess: all values are integers from 0 to 4")
    assert "a vocabulary file cannot store 1 word: 'd\\ne'" in why("columns", "no")
    text = (place / "spec.yaml").read_text()
    assert '# left out: "odd words": its name cannot be part of' in text
    assert '# left out: "never": none of 2,000 records has a value of it' in text


def test_labels_and_heads(analysis):
    spec = feature_specs.load(analysis[0] / "spec.yaml")
    objectives = spec.to_dict()["objectives"]
    assert objectives == {
        "click": {"head": "binary"},
        "stars": {"head": "multi_class", "num_classes": 5},
    }
    assert not {"click", "stars"} & set(spec.features)


def test_the_report_names_what_is_not_used(analysis):
    place, report = analysis
    assert report.splitlines()[0].startswith(f"{place}/spec.yaml: 11 features and 2 labels, from")
    for text in ("ignored: ragged: lists of numbers with", "left out: odd words: its name"):
        assert text in report


def test_vocabularies_are_ordered_and_counted(analysis, files):
    place, _ = analysis
    counts = {}
    for row in make_rows():
        counts[row["user"]] = counts.get(row["user"], 0) + 1
    expected = sorted(((w, n) for w, n in counts.items() if n >= 5), key=lambda p: (-p[1], p[0]))
    words = (place / "vocabularies" / "user.txt").read_text().splitlines()
    assert words == [word for word, _ in expected]
    table = (place / "vocabularies" / "user.counts.tsv").read_text()
    assert list(read_counts(table).items()) == expected
    column = columns_of(place)["user"]
    assert column["oov_buckets"] == -(-(len(counts) - len(words)) // 10)


def test_the_statistics_are_read_back(analysis):
    found = statistics.load(analysis[0] / "statistics.json")
    assert found.rows == 2000 and found.features["click"].cardinality.value == 2
    assert found.features["session"].words.top == tuple(
        sorted((f"s{i}", 1) for i in range(2000))[:1000]
    )


def test_the_records_fit_the_spec(analysis, files):
    spec = feature_specs.load(analysis[0] / "spec.yaml")
    rows = 0
    for _, labels in input_fns.eval_input_fn(spec, files, batch_size=500)():
        rows += len(labels["click"])
    assert rows == 2000


def test_the_same_records_give_the_same_files(analysis, files, tmp_path):
    again = tmp_path / "again"
    first_spec.write(files, labels=["click", "stars"], directory=str(again))
    for path in analysis[0].rglob("*"):
        if path.is_file():
            assert (again / path.relative_to(analysis[0])).read_bytes() == path.read_bytes()


# --- Other data ----------------------------------------------------------------------------------


def analyze(tmp_path, rows, labels=("y",), **options):
    writing.write_examples(f"{tmp_path}/x.tfrecord", rows)
    place = tmp_path / "analysis"
    first_spec.write([f"{tmp_path}/x.tfrecord"], labels=labels, directory=str(place), **options)
    return place, feature_specs.load(place / "spec.yaml")


def test_too_many_values_are_hashed_and_the_collisions_said(tmp_path):
    rows = [{"y": i % 2, "word": f"w{i % 1700}"} for i in range(3000)]
    place, spec = analyze(tmp_path, rows, min_count=2, exact_limit=1000)
    column = spec.columns["word"]
    # An estimate near 1,700 values: ten buckets for each. 1 - exp(-1 / 10.5) of them share one.
    assert column.kind == "hash_bucket" and 16_000 <= column.size <= 18_000
    why = entries(place)["columns", "word"][1]
    assert "hashed, because too many for a vocabulary" in why
    assert "about 9% of the values share an id" in why


def test_rare_words_are_hashed(tmp_path):
    rows = [{"y": i % 2, "word": f"w{i % 400}"} for i in range(800)]
    place, spec = analyze(tmp_path, rows)
    assert spec.columns["word"].size == 4000
    assert not (place / "vocabularies").exists()
    assert "frequent words cover only 0% of all values" in entries(place)["columns", "word"][1]


@pytest.mark.parametrize(
    ("lengths", "shape"),
    [
        ((1024,), (1024,)), ((1536,), (1536,)), ((0, 1536), (1536,)), ((1536, 2000), "variable"),
        ((3, 4), "variable"),
    ],
)  # fmt: skip
def test_vectors_of_one_length_have_a_shape(tmp_path, lengths, shape):
    """Statistics count lengths from 1,024 on in ranges."""
    rows = [
        {"y": i % 2, "age": i % 7, "vector": [float(i)] * lengths[i % len(lengths)]}
        for i in range(20)
    ]
    _, spec = analyze(tmp_path, rows)
    assert spec.features["vector"].shape == shape


def test_a_missing_integer_category_is_minus_one_and_no_word(tmp_path):
    rows = [{"y": i % 2, "code": [None, -1, 7, 8][i % 4]} for i in range(100)]
    place, spec = analyze(tmp_path, rows)
    assert spec.features["code"].default == -1
    assert (place / "vocabularies" / "code.txt").read_text() == "7\n8\n"


def test_names_that_others_would_hide(tmp_path):
    rows = [{"y": i % 2, "a": i / 7, "a_bucket": i / 3, "a_scaled": "xyz"[i % 3], "true": i % 9}
            for i in range(100)]  # fmt: skip
    _, spec = analyze(tmp_path, rows)
    assert spec.columns["a_bucket_column"].source == "a"
    assert spec.columns["a_bucket_bucket"].source == "a_bucket"
    assert spec.columns["a_scaled_column"].source == "a" and "true" in spec.columns


@pytest.mark.parametrize(
    "value, why",
    [
        (lambda i: 1.5, "every finite value is the same, 1.5"),
        (lambda i: [1.5, math.nan][i % 2], "every finite value is the same, 1.5"),
        (lambda i: [1.5, None][i % 2], "every finite value is the same, 1.5"),
        (lambda i: math.nan, "no value is finite"),
        (lambda i: "", "every value is the empty string"),
        (lambda i: b"\xff%d" % (i % 3),
         "no value is text that a vocabulary could hold; images, and numbers as raw bytes, are "
         "read with decode"),
        (lambda i: 7, "every value is the same, '7'"),
        (lambda i: [0.5 + i] * (i % 3),
         "lists of numbers with different lengths (0 to 2 values, 1 on average) need a "
         "sequence_numeric or ragged column and a custom model that reads its group; write such a "
         "model, or store the same number of values in every record, or their sum, mean or "
         "maximum"),
    ],
)  # fmt: skip
def test_useless_features_are_ignored_and_it_is_said_why(tmp_path, value, why):
    rows = [{"y": i % 2, "x": value(i), "z": "ab"[i % 2]} for i in range(60)]
    place, spec = analyze(tmp_path, rows)
    assert spec.ignored == ("x",) and entries(place)["ignored", "x"][1] == why


def test_one_value_that_some_records_lack_is_a_category(tmp_path):
    rows = [{"y": i % 2, "x": "on" if i % 3 else None, "n": 7 if i % 2 else None}
            for i in range(60)]  # fmt: skip
    _, spec = analyze(tmp_path, rows)
    assert spec.columns["x"].kind == spec.columns["n"].kind == "vocabulary"


def test_the_number_minus_one_is_said_to_mean_missing(tmp_path):
    rows = [{"y": i % 2, "code": [-1, 7, 8][i % 3]} for i in range(60)]
    place, _ = analyze(tmp_path, rows)
    assert entries(place)["features", "code"][1] == (
        "in every record; 20 values with -1, which means missing"
    )


def test_words_are_data_and_not_yaml(tmp_path):
    words = ["a: b", "# c", "{d}", "'e", '"f', "null", "1", "é日😀", "g\th", "\x07", "[i]", "j\\"]
    rows = [{"y": words[i % len(words)], "x": words[i % 5], "1": words[i % 7]} for i in range(120)]
    place, spec = analyze(tmp_path, rows)
    assert spec.labels["y"].vocabulary == tuple(sorted(words))
    assert (place / "vocabularies" / "1.txt").read_text().split("\n")[:-1] == sorted(
        words[:7], key=lambda w: (-len(range(words.index(w), 120, 7)), w)
    )


@pytest.mark.parametrize(
    "values, label, head",
    [
        (["no", "yes"], {"dtype": "string", "vocabulary": ["no", "yes"]}, {"head": "binary"}),
        (["b", "a", "c"], {"dtype": "string", "vocabulary": ["a", "b", "c"]},
         {"head": "multi_class", "num_classes": 3}),
        ([0.0, 1.0], {"dtype": "float32"}, {"head": "binary"}),
        # The mean and the standard deviation.
        ([0.5, 2.0], {"dtype": "float32"}, {"head": "regression", "center": 1.25, "scale": 0.75}),
        ([1, 2, 3], {"dtype": "int64"}, {"head": "regression", "center": 2.0, "scale": 0.816497}),
    ],
)  # fmt: skip
def test_guesses_of_heads(tmp_path, values, label, head):
    rows = [{"y": values[i % len(values)], "x": i % 7} for i in range(60)]
    spec = analyze(tmp_path, rows)[1].to_dict()
    assert (spec["labels"]["y"], spec["objectives"]["y"]) == (label, head)


@pytest.mark.parametrize(
    "rows, message",
    [
        ([{"x": 1}, {"x": 2}], "--labels: no record has a feature 'y'. Use one of: x."),
        ([{"y": []}, {"x": 2}], "--labels: feature 'y' has no value in any record"),
        ([{"y": [1, 2]}, {"x": 2}],
         "--labels: feature 'y' has up to 2 values in a record; a label must have one"),
        ([{"y": 1}, {"x": 2}],
         "--labels: feature 'y' has the same value in all records, from which a model cannot "
         "learn"),
        ([{"y": f"{i}"} for i in range(1001)],
         "--labels: feature 'y' is text with 1,001 different values; a label must have 2 to 1000 "
         "classes, or be a number"),
        ([{"y": 1, "x": 1}, {"y": 0, "x": 1}],
         "apart from the labels, the records have no feature that can be used; x: every value is "
         "the same, '1'"),
        ([{"y": 1}, {"y": 0}],
         "apart from the labels, the records have no feature that can be used"),
    ],
)  # fmt: skip
def test_records_without_a_possible_spec(tmp_path, rows, message):
    with pytest.raises(DataError) as error:
        analyze(tmp_path, rows)
    assert str(error.value) == message
    assert not (tmp_path / "analysis").exists()


def test_a_label_that_no_variable_can_be_named_after(tmp_path):
    with pytest.raises(DataError, match="--labels: the name 'a b' cannot be part of a TensorFlow"):
        analyze(tmp_path, [{"a b": i % 2, "x": i % 3} for i in range(50)], labels=["a b"])


def test_a_label_that_is_missing_somewhere_is_masked(tmp_path):
    rows = [{"y": i % 2 if i else None, "x": i % 7} for i in range(50)]
    place, _ = analyze(tmp_path, rows)
    value, comment = entries(place)["labels", "y"]
    assert value == "y: {dtype: int64, missing: mask}"
    assert comment.startswith(
        "missing in 2% of the records, which `mask` leaves out of the loss and the metrics; "
    )


texts = st.text(max_size=4) | st.sampled_from(["", "1", "a\nb", "c\r", "\ufeff", "null"])
numbers = st.floats(width=32) | st.sampled_from([0.0, 1.0, math.nan, 1e-30])
integers = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2)


def lists(values):
    return st.none() | values | st.lists(values, max_size=3)


features = st.fixed_dictionaries(
    {"y": st.integers(0, 1)},
    optional={"x": lists(numbers), "x_scaled": lists(texts), "x_bucket": st.none() | numbers,
              "n": lists(integers), "n_id": st.none() | integers, "null": texts, "a b": numbers,
              "x.y-z": lists(st.sampled_from("ab")), "bytes": st.binary(max_size=3)},
)  # fmt: skip


@pytest.mark.ci
@hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
@hypothesis.given(rows=st.lists(features, min_size=1, max_size=12), min_count=st.integers(1, 3),
                  limit=st.sampled_from([3, 100]))  # fmt: skip
def test_for_any_records_the_spec_loads_or_the_reason_is_given(
    tmp_path_factory, rows, min_count, limit
):
    place = tmp_path_factory.mktemp("any")
    # Random labels are often all the same; another test covers this case.
    rows = [{**row, "y": i % 2} for i, row in enumerate([*rows, {}, {"y": 1}])]
    try:
        _, spec = analyze(place, rows, min_count=min_count, exact_limit=limit)
    except DataError as error:
        assert str(error).startswith("apart from the labels, the records have no feature")
    else:
        assert set(spec.features) <= {name for row in rows for name in row}


# --- The folder ----------------------------------------------------------------------------------


def test_a_folder_of_analysis_is_written_again(tmp_path):
    place, _ = analyze(tmp_path, [{"y": i % 2, "x": "ab"[i % 2]} for i in range(50)])
    assert (place / "vocabularies" / "x.txt").exists()
    _, spec = analyze(tmp_path, [{"y": i % 2, "z": "ab"[i % 2]} for i in range(50)])
    assert list(spec.features) == ["z"]
    names = sorted(p.relative_to(place).as_posix() for p in place.rglob("*") if p.is_file())
    assert names == [
        "manifest.json", "spec.yaml", "statistics.json", "vocabularies/z.counts.tsv",
        "vocabularies/z.txt",
    ]  # fmt: skip


def test_files_that_analysis_did_not_write_are_not_changed(tmp_path):
    rows = [{"y": i % 2, "x": "ab"[i % 2]} for i in range(50)]
    place, _ = analyze(tmp_path, rows)
    (place / "spec.yaml").write_text("mine")
    with pytest.raises(folder.FolderError) as error:
        analyze(tmp_path, rows)
    assert str(error.value) == (
        f"'{place}/spec.yaml' was changed since analysis wrote it; name another folder, move the "
        "file away, or use --spec to refresh only the spec's files"
    )
    (place / "spec.yaml").unlink()
    (place / "notes.txt").write_text("mine")
    with pytest.raises(folder.FolderError) as error:
        analyze(tmp_path, rows)
    assert str(error.value) == (
        f"'{place}' holds 'notes.txt', which analysis did not write; name another folder, or move "
        "the file away"
    )


def test_a_crash_between_renames_leaves_a_folder_that_can_be_written_again(tmp_path, monkeypatch):
    place = tmp_path / "f"
    folder.publish(place, {"a": "1", "b": "1", "d/c": "1"})
    renames = []

    def rename(source, target):
        if len(renames) == 2:
            raise KeyboardInterrupt
        renames.append(target)
        original(source, target)

    original = os.replace
    monkeypatch.setattr(os, "replace", rename)
    with pytest.raises(KeyboardInterrupt):
        folder.publish(place, {"a": "2", "b": "2"})
    monkeypatch.undo()
    assert ((place / "a").read_text(), (place / "b").read_text()) == ("1", "2")
    folder.publish(place, {"a": "3", "b": "3"})
    assert sorted(json.loads((place / "manifest.json").read_text())["files"]) == ["a", "b"]
    assert not (place / "d" / "c").exists()


def test_words_that_a_vocabulary_file_cannot_store():
    chosen = choose_words(
        [("a\nb", 9), ("c\r", 9), ("\ufeffd", 9), ("", 9), ("e\tf", 8), ("g", 4)], 5, exact=True
    )  # fmt: skip
    assert chosen.words == (("e\tf", 8),)
    assert (chosen.rare, chosen.unusable) == (1, ("a\nb", "c\r", "\ufeffd"))
    assert read_counts(chosen.counts_text()) == {"e\tf": 8}


def test_what_a_user_must_know_of_labels(tmp_path):
    def report_of(*labels):
        rows = [{"x": float(i), **({} if y is None else {"y": y})} for i, y in enumerate(labels)]
        path = f"{tmp_path}/{len(list(tmp_path.iterdir()))}.tfrecord"
        writing.write_examples(path, rows)
        return first_spec.write([path], labels=["y"], directory=path[: -len(".tfrecord")]).report

    assert (
        "  WARNING: y has the two values -1 and 1, and is learned as a number. If they are "
        "classes, make a label of 0 and 1: --derive_labels=NAME=y:equals:1"
    ) in report_of(*[1, -1] * 100)
    assert (
        "  WARNING: only 3 rows have y '1'. An evaluation may have none of them, and then a metric "
    ) in report_of(*[1] * 3, *[0] * 197)
    assert (
        "  WARNING: 25% of the records have no y, and are left out of the loss and the metrics"
    ) in report_of(*[0, 1, 0, None, 1, 0, 1, None] * 50)
    assert "WARNING" not in report_of(*[0, 1] * 100)


def test_the_usual_labels_of_svmlight_are_classes(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("".join(f"{(1, -1)[i % 2]} 1:{i}\n" for i in range(200)))
    first = first_spec.write([str(path)], labels=["label"], directory=str(tmp_path / "first"))
    assert first.heads == {"label": "binary"}
    spec = feature_specs.load(tmp_path / "first" / "spec.yaml")
    assert spec.labels["label"].vocabulary == ("-1", "1")
