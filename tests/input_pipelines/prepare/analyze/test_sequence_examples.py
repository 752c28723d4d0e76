"""Analysis of SequenceExamples: arrays have the same values as protobuf's, the first spec reads the
records, and files of two kinds are refused."""

from __future__ import annotations

import random

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf.message import DecodeError
from hypothesis import strategies as st

import feature_specs
from feature_specs import statistics
from input_pipelines import input_fns
from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import first_spec, refresh, scan, wire
from input_pipelines.prepare.analyze.protobuf_records import NotAnExample
from input_pipelines.record_files import writing
from tests.input_pipelines.prepare.analyze.test_first_spec import entries

KINDS = {"bytes_list": "string", "float_list": "float32", "int64_list": "int64"}

step = st.integers(-3, 300) | st.lists(st.integers(0, 5), max_size=2)
lists = st.dictionaries(
    st.sampled_from(["a", "b", "é"]),
    st.lists(step, max_size=4) | st.lists(st.binary(max_size=3), max_size=4),
    max_size=3,
)
context = st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 5) | st.text(max_size=3))


@hypothesis.settings(max_examples=100, deadline=None, derandomize=True)
@hypothesis.given(st.lists(st.tuples(context, lists), max_size=6))
def test_blocks_are_what_protobuf_reads(rows):
    records = [writing.sequence_example(*row).SerializeToString() for row in rows]
    expected = {}
    for i, record in enumerate(records):
        parsed = tf.train.SequenceExample.FromString(record)
        for name, feature_list in parsed.feature_lists.feature_list.items():
            values, odd = [], 0
            for stored in feature_list.feature:
                kind = stored.WhichOneof("kind")
                part = list(getattr(stored, kind).value) if kind else []
                values += part
                odd += len(part) != 1
            expected.setdefault(name, {})[i] = (values, odd)
    found = {}
    odd_steps = {}
    for name, blocks in wire.parse_block(records).items():
        for block in blocks:
            assert block.feature_list == (name in "abé")
            if block.feature_list:
                odd_steps[name] = odd_steps.get(name, 0) + block.odd_steps
                values = list(block.values)
                ends = np.cumsum(block.lengths)
                assert ends[-1] == len(values)
                for row, end, count in zip(block.rows, ends, block.lengths):
                    found.setdefault(name, {}).setdefault(int(row), []).extend(
                        values[end - count : end]
                    )
    assert found == {n: {i: v for i, (v, _) in by.items()} for n, by in expected.items()}
    assert odd_steps == {n: sum(odd for _, odd in by.values()) for n, by in expected.items()}


def test_every_cut_of_a_record_is_judged_as_protobuf_does():
    whole = writing.sequence_example({"c": 1}, {"a": [1, 2**40], "b": ["x", "yy"]})
    record = whole.SerializeToString()
    for size in range(len(record)):
        try:
            parsed = tf.train.SequenceExample.FromString(record[:size])
        except DecodeError:
            with pytest.raises(NotAnExample):
                wire.parse_block([record[:size]])
        else:
            names = {*parsed.context.feature, *parsed.feature_lists.feature_list}
            assert set(wire.parse_block([record[:size]])) == names


def test_feature_lists_before_the_context():
    first = writing.sequence_example({}, {"a": [1.5]}).SerializeToString()
    record = first + writing.sequence_example({"c": 1}, {}).SerializeToString()
    found = wire.parse_block([first, record])
    assert [block.values.tolist() for block in found["a"]] == [[1.5], [1.5]]
    assert [block.feature_list for block in found["a"] + found["c"]] == [True, True, False]


def make_rows(count=600):
    rng = random.Random(1)
    rows = []
    for i in range(count):
        length, searches = i % 4, rng.randint(0, 2)
        steps = {
            "items": [f"item {rng.randint(0, 30)}" for _ in range(length)],
            "seconds": [rng.gauss(20, 5) for _ in range(length)],
            "kinds": [rng.randint(0, 2) for _ in range(length)],
            "queries": [rng.choice(["a", "b"]) for _ in range(searches)],
            "bags": [["x", "y"], "z"],
            "never": [],
        }
        if i % 50 == 0:
            del steps["queries"]
        context = {"click": int(rng.random() < 0.3), "age": rng.randint(18, 90), "tags": ["t"] * 2}
        rows.append((context, steps))
    return rows


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    place = tmp_path_factory.mktemp("records")
    paths = [f"{place}/a.tfrecord", f"{place}/b.tfrecord.gz"]
    rows = make_rows()
    writing.write_sequence_examples(paths[0], rows[:400])
    writing.write_sequence_examples(paths[1], rows[400:])
    return paths


@pytest.fixture(scope="module")
def analysis(files, tmp_path_factory):
    place = tmp_path_factory.mktemp("out") / "analysis"
    report = first_spec.write(files, labels=["click"], directory=str(place)).report
    return place, report


def test_a_first_spec(analysis):
    place, report = analysis
    spec = feature_specs.load(place / "spec.yaml")
    assert spec.feature_lists == ("bags", "items", "kinds", "queries", "seconds")
    assert spec.ignored == ("bags",)
    assert spec.features["tags"].shape == "variable"
    assert dict(spec.groups) == {
        "wide": ("age_bucket", "items", "kinds", "queries", "tags"),
        "deep": ("age_scaled", "items_emb", "kinds_hot", "queries_hot", "tags_hot"),
        "fields": ("age_bucket_emb", "items_emb", "kinds_emb", "queries_emb", "tags_emb"),
        "steps": ("items_step_emb", "kinds_step_hot", "seconds_step"),
        "steps_2": ("queries_step_hot",),
    }
    assert spec.columns["items_step"].sequence and not spec.columns["items"].sequence
    assert spec.columns["seconds_step"].normalizer[0].zscore.mean == pytest.approx(20, abs=1)
    why = entries(place)
    assert why["features", "items"][1] == (
        "0 to 3 steps, 1.5 on average; empty in 25% of the records"
    )
    assert why["ignored", "bags"][1] == (
        "in 600 steps it does not have exactly one value, and only ragged columns can read such "
        "steps (with shape: variable); store one value in each step"
    )
    assert "left out: never: none of 600 records has a value of it" in report


def test_the_records_fit_the_spec(analysis, files):
    spec = feature_specs.load(analysis[0] / "spec.yaml")
    rows = 0
    for features, labels in input_fns.eval_input_fn(spec, files, batch_size=100)():
        rows += len(labels["click"])
        assert features["items_step"].row_lengths().numpy().tolist() == [
            i % 4 for i in range(rows - 100, rows)
        ]
    assert rows == 600


def test_the_statistics_count_steps(analysis):
    found = statistics.load(analysis[0] / "statistics.json").features
    assert found["items"].lengths.counts == {"0": 150, "1": 150, "2": 150, "3": 150}
    assert (found["items"].odd_steps, found["bags"].odd_steps) == (0, 600)
    assert found["age"].odd_steps is None
    assert (analysis[0] / "statistics.json").read_text().count("odd_steps") == 6


@pytest.mark.nightly
def test_several_processes_find_the_same(files):
    one, two = (scan.scan(files, workers=n, group_bytes=1) for n in (1, 2))
    assert one.statistics(2) == two.statistics(2)
    assert one.step_groups() == two.step_groups() == [
        ["bags"], ["items", "kinds", "seconds"], ["never"], ["queries"],
    ]  # fmt: skip


def write(tmp_path, name, rows):
    path = f"{tmp_path}/{name}.tfrecord"
    if isinstance(rows[0], tuple):
        writing.write_sequence_examples(path, rows)
    else:
        writing.write_examples(path, rows)
    return path


def test_files_of_two_kinds_are_refused(tmp_path):
    lists = write(tmp_path, "lists", [({"y": 1}, {"x": [1, 2]})])
    same = write(tmp_path, "same", [{"y": 1, "x": [1, 2]}])
    other = write(tmp_path, "other", [{"y": 1}])
    with pytest.raises(DataError) as error:
        scan.scan([lists, same])
    assert str(error.value) == (
        f"feature 'x' is a plain feature in {same}: record 0, but a feature list in {lists}: "
        "record 0; if some files have tf.train.Examples and others tf.train.SequenceExamples, "
        "analyze files of one kind, otherwise rename one of the two"
    )
    with pytest.raises(DataError) as error:
        scan.scan([other, lists])
    assert str(error.value) == (
        f"the records of {lists} are tf.train.SequenceExamples, but the records of {other} have no "
        "feature_lists, so they seem to be tf.train.Examples (or all their lists are absent); "
        "analyze files of one kind"
    )


def test_a_label_is_no_feature_list(tmp_path):
    path = write(tmp_path, "x", [({"z": i}, {"y": [i % 2]}) for i in range(9)])
    with pytest.raises(DataError) as error:
        first_spec.write([path], labels=["y"], directory=f"{tmp_path}/out")
    assert str(error.value) == (
        "--labels: 'y' is a feature list; a label must be one value in the context"
    )


def test_steps_of_two_types_are_refused(tmp_path):
    odd = writing.sequence_example({}, {"x": [1, 2]})
    odd.feature_lists.feature_list["x"].feature[1].float_list.value.append(0.5)
    path = f"{tmp_path}/x.tfrecord"
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(odd.SerializeToString())
    with pytest.raises(DataError, match=r"feature 'x' is \w+ in .*record 0 and \w+ in"):
        scan.scan([path])


def test_a_refresh_tells_feature_lists_apart(analysis, files, tmp_path):
    spec = str(analysis[0] / "spec.yaml")
    assert "vocabularies/items.txt: 31 words, unchanged" in refresh.refresh(spec, files)
    rows = [{**context, **{n: v for n, v in steps.items() if n != "bags"}}
            for context, steps in make_rows(50)]  # fmt: skip
    examples = write(tmp_path, "examples", rows)
    with pytest.raises(DataError) as error:
        refresh.refresh(spec, [examples])
    assert str(error.value) == (
        f"'items' is not a feature list in the records, but in the spec {spec} (feature_list: "
        "true); correct the spec, or pass files that fit it"
    )
