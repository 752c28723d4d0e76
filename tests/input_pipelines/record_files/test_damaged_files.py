"""Random damage to files never crashes a reader, and never loses a record silently."""

from __future__ import annotations

import gzip
import pathlib
import random
import zlib

import pytest
import tensorflow as tf

import feature_specs
from input_pipelines import input_fns
from input_pipelines.integrity import data_scan, diagnosis, file_check
from input_pipelines.integrity.file_check import FileReport
from input_pipelines.record_files import record_lists, tfrecords, writing
from input_pipelines.record_files.sharding import Shard
from tests.conftest import DOCUMENT, make_rows, place

ROWS = 40
PAYLOADS = [writing.example(row).SerializeToString(deterministic=True) for row in make_rows(ROWS)]


class Reader:
    """Reads a file repeatedly: strictly, as a run does, and skipping damaged records."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self._strict = tfrecords.blocks([str(path)])
        self._past = tfrecords.blocks([str(path)], damaged={str(path): frozenset()})

    def strictly(self):
        """All payloads, or None if there was an error."""
        try:
            return [payload for block in self._strict for payload in block.numpy()]
        except tfrecords.READ_ERRORS:
            return None

    def past_damage(self):
        return [payload for block in self._past for payload in block.numpy()]

    def report(self) -> FileReport:
        return CHECK.report(str(self.path))


CHECK = data_scan._examples()


def ends_of_records() -> list[int]:
    ends = [0]
    for payload in PAYLOADS:
        ends.append(ends[-1] + 16 + len(payload))
    return ends


def damage(data: bytes, rng: random.Random) -> tuple[str, int, bytes]:
    """What was done, where, and the damaged bytes."""
    if rng.random() < 0.5:
        place = rng.randrange(len(data))
        changed = bytearray(data)
        changed[place] ^= 1 << rng.randrange(8)
        return "flipped", place, bytes(changed)
    place = rng.randrange(len(data))
    return "cut", place, data[:place]


def check_plain(reader: Reader, what: str, place: int, data: bytes) -> None:
    """A bit damages one record. A cut loses the records after it, and damages at most one."""
    ends = ends_of_records()
    record = next(i for i, end in enumerate(ends[1:]) if place < end)
    good = PAYLOADS[:record]
    if what == "flipped":
        good += PAYLOADS[record + 1 :]
    bad = what == "flipped" or place == 0 or place not in ends
    report = reader.report()
    assert (report.records, report.bad_records) == (len(good) + bad, int(bad))
    assert reader.past_damage() == good
    assert reader.strictly() == (None if bad else good)


def check_packed(reader: Reader, data: bytes) -> None:
    """Any damage to compressed data is noticed, and records that are read have been written."""
    try:
        whole = zlib.decompressobj(31)
        unpacked = whole.decompress(data)
        intact = whole.eof and not whole.unused_data
    except zlib.error:
        intact = False
    report = reader.report()
    past = reader.past_damage()
    assert (report.bad_records == 0) == intact
    assert report.good_records == len(past)
    remaining = iter(PAYLOADS)
    assert all(payload in remaining for payload in past), "in their order"
    if intact:  # A bit of the header without meaning, such as the time.
        assert unpacked == gzip.decompress(data) and past == PAYLOADS
    strictly = reader.strictly()
    # A reader that was set up before the damage and got every record has lost nothing. The cut is
    # in the last bytes, which it had already seen.
    assert strictly == PAYLOADS if intact else strictly in (None, PAYLOADS)
    if not intact:
        assert Reader(reader.path).strictly() is None if strictly else True


def run_cases(folder: pathlib.Path, count: int, seed: int = 0) -> None:
    rng = random.Random(count + seed)
    whole = {}
    for name in ("a.tfrecord", "a.tfrecord.gz"):
        writing.write_examples(str(folder / name), make_rows(ROWS))
        whole[name] = (folder / name).read_bytes()
    readers = {name: Reader(folder / name) for name in whole}
    for name, reader in readers.items():
        assert reader.strictly() == PAYLOADS == reader.past_damage(), name
    for case in range(count):
        name = rng.choice(list(whole))
        what, place, data = damage(whole[name], rng)
        readers[name].path.write_bytes(data)
        try:
            if name.endswith(".gz"):
                check_packed(readers[name], data)
            else:
                check_plain(readers[name], what, place, data)
        except AssertionError as error:
            raise AssertionError(f"case {case}: {name} {what} at {place}") from error


def test_some_random_damage(tmp_path):
    run_cases(tmp_path, 10)


@pytest.mark.nightly
@pytest.mark.parametrize(("count", "seed"), [(500, 2), (500, 3), (500, 4), (500, 5)])
def test_much_random_damage(tmp_path, count, seed):
    """One hundred cases in continuous integration, two thousand nightly."""
    run_cases(tmp_path, count, seed)


@pytest.fixture
def files(tmp_path):
    """Three files of 1500, 1100 and 700 rows; the second has two bad records, 3 and 1050."""
    paths = [str(tmp_path / name) for name in ("a.tfrecord", "b.tfrecord", "c.tfrecord.gz")]
    for path, (rows, seed) in zip(paths, ((1500, 0), (1100, 1), (700, 2))):
        writing.write_examples(path, make_rows(rows, seed))
    data = bytearray(pathlib.Path(paths[1]).read_bytes())
    ends = [0]
    while ends[-1] < len(data):
        ends.append(ends[-1] + 16 + int.from_bytes(data[ends[-1] : ends[-1] + 8], "little"))
    data[ends[3] + 20] ^= 1
    data[ends[1050] + 2] ^= 1
    pathlib.Path(paths[1]).write_bytes(data)
    return paths


def rows_of(dataset) -> list[bytes]:
    return [row for block in dataset for row in block.numpy()]


@pytest.mark.parametrize("interleaved", [False, True])
def test_shards_of_damaged_files_are_all_of_the_good_rows(files, interleaved):
    damaged = {files[1]: frozenset({7})}
    whole = rows_of(tfrecords.blocks(files, damaged=damaged, interleaved=interleaved))
    assert len(set(whole)) == len(whole) == 1500 + 1100 - 3 + 700
    parts = [
        rows_of(tfrecords.blocks(files, Shard(3, i), damaged=damaged, interleaved=interleaved))
        for i in range(3)
    ]
    assert sorted(row for part in parts for row in part) == sorted(whole)
    assert [tfrecords.count_records(files, Shard(3, i), damaged=damaged) for i in range(3)] == [
        len(part) for part in parts
    ]
    assert list(record_lists.first_records(files, damaged=damaged)) == files


def test_a_scan_with_a_spec_finds_what_stops_a_run(tmp_path, files):
    rows = make_rows(1200)
    rows[5]["city"] = None
    rows[1030]["price"] = float("nan")
    rows[1040]["click"] = 2
    path = str(tmp_path / "d.tfrecord")
    writing.write_examples(path, rows)
    spec = feature_specs.parse(DOCUMENT)
    seen: list[tuple[int, int]] = []
    reports = data_scan.scan([*files, path], spec=spec, progress=lambda *part: seen.append(part))
    assert [(r.records, r.bad_records, r.left_out) for r in reports] == [
        (1500, 0, frozenset()),
        (1100, 2, frozenset()),
        (700, 0, frozenset()),
        (1200, 3, frozenset({5, 1030, 1040})),
    ]
    assert sum(size for size, _ in seen) == sum(report.size for report in reports)
    assert sum(bad for _, bad in seen) == 5 and all(bad >= 0 for _, bad in seen)
    reasons = [bad.reason for bad in reports[3].listed]
    assert reasons == [
        "feature 'city' is missing, and it has no default in the spec; give it one if records may "
        "lack it",
        "feature 'price' is nan, expected a finite number",
        "label 'click' is 2, expected 0 or 1 for the binary head of objective 'click'",
    ]
    # Prediction does not need the label. Without a spec, every record that is an Example is good.
    assert data_scan.scan([path], spec=spec, with_labels=False)[0].left_out == {5, 1030}
    assert data_scan.scan([path])[0].bad_records == 0
    good = rows_of(tfrecords.blocks([path], damaged={path: reports[3].left_out}))
    assert len(good) == 1197


def test_a_record_that_is_no_example_is_one_bad_record(tmp_path):
    path = str(tmp_path / "a.tfrecord.gz")
    with tf.io.TFRecordWriter(path, "GZIP") as writer:
        for i in range(1500):
            writer.write(b"not an example" if i in (0, 1030) else PAYLOADS[i % ROWS])
    report = data_scan.scan([path])[0]
    assert (report.records, report.bad_records, report.left_out) == (1500, 2, {0, 1030})
    assert report.listed[0].sentence == (
        "record 0 at unpacked byte 0: is not a serialized tf.train.Example or SequenceExample"
    )
    assert report.lost_bytes == 2 * 30


# Framed correctly, but not UTF-8: Python cannot decode TensorFlow's message about the first two.
# They are a text, a truncated field, a length beyond the end, and a group that never ends.
GARBAGE = [b"\xff\xfe\x00garbage", b"\x0a\x05\xe9", b"\x0a\xff\xff\x03x", b"\x0b\x0b"]


def test_records_of_garbage_are_bad_records(tmp_path):
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(1100):
            writer.write(GARBAGE[i % 4] if i < 4 or i == 1030 else PAYLOADS[i % ROWS])
    spec = feature_specs.parse(DOCUMENT)
    for given in (spec, None):
        report = data_scan.scan([path], spec=given)[0]
        assert (report.records, report.left_out) == (1100, {0, 1, 2, 3, 1030}), given
    report = data_scan.scan([path], spec=spec)[0]
    assert {bad.reason for bad in report.listed} == {"is not a serialized tf.train.Example"}
    assert diagnosis.find_bad_record(spec, [path]) == (
        f"{path}: record 0 at byte 0: is not a serialized tf.train.Example"
    )


LISTED = {
    "features": {"words": {"dtype": "string", "feature_list": True}, "age": {"dtype": "float32"}},
    "columns": {"words": {"hash_bucket": "words", "size": 9}, "age": {"numeric": "age"}},
    "groups": {"wide": ["words", "age"]},
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}


@pytest.mark.parametrize("of_lists", [False, True])
def test_a_record_of_the_other_kind_is_bad_wherever_it_is(tmp_path, of_lists):
    """Read as an Example, a SequenceExample would lose its lists, and the other way round."""
    if of_lists:
        spec = feature_specs.parse(LISTED)
        row = {"age": 3.0, "y": 1}
        right = writing.sequence_example(row, {"words": ["a"]})
        wrong = writing.example({**row, "words": ["a"]})
        # A record without lists can be either kind.
        also = writing.sequence_example(row, {})
        reason = "seems to be a tf.train.Example: it has no feature_lists, but words among its "
    else:
        spec = feature_specs.parse(DOCUMENT)
        row = make_rows(1)[0]
        right = also = writing.example(row)
        wrong = writing.sequence_example(row, {"words": []})
        reason = (
            "is a tf.train.SequenceExample (it has feature_lists: words), but the spec describes "
        )
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(200):
            record = wrong if i in (5, 150) else also if i == 7 else right
            writer.write(record.SerializeToString())
    for with_labels in (True, False):
        report = data_scan.scan([path], spec=spec, with_labels=with_labels)[0]
        assert report.left_out == {5, 150} and report.listed[1].reason.startswith(reason)
        damaged = {path: report.left_out}
        if with_labels:
            input_fn = input_fns.eval_input_fn(spec, [path], batch_size=50, damaged=damaged)
            strict = input_fns.eval_input_fn(spec, [path], batch_size=50)
        else:
            input_fn = input_fns.predict_input_fn(spec, [path], batch_size=50, damaged=damaged)
            strict = input_fns.predict_input_fn(spec, [path], batch_size=50)
        assert len(list(input_fn())) == 4
        with pytest.raises(tf.errors.InvalidArgumentError, match="but the spec describes"):
            list(strict())
    message = diagnosis.find_bad_record(spec, [path])
    assert message is not None and message.startswith(f"{path}: {place(path, 5)}: {reason}")


class Counting:
    """Rejects records that begin with x or y. Python knows the reason only for y."""

    def __init__(self):
        self.calls = 0

    def function(self, block):
        self.calls += 1
        tf.debugging.assert_equal(
            tf.strings.regex_full_match(block, "[xy].*"), False, "a record begins with x or y"
        )

    def explain(self, record):
        # It also names a reason for z, although such records are good.
        return "begins with y" if record[:1] in (b"y", b"z") else None


@pytest.mark.parametrize("share", [0.0, 0.002, 0.14, 1.0])
def test_many_bad_records_cost_about_one_question_each(tmp_path, share):
    rng = random.Random(1)
    records = [b"a"] * 1100
    for i in rng.sample(range(1100), int(share * 1100)):
        records[i] = rng.choice([b"y1", b"y2", b"x", b"z"]) if share < 1 else b"y"
    path = str(tmp_path / "a.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    counting = Counting()
    report = file_check.FileCheck(counting.function, counting.explain).report(path)
    bad = {i for i, record in enumerate(records) if record[:1] in (b"x", b"y")}
    assert (report.records, report.left_out) == (1100, bad)
    known = [item.reason for item in report.listed if item.reason == "begins with y"]
    assert len(known) == min(sum(records[i][:1] == b"y" for i in bad), 1000)
    # Halving down to one took 20 calls for one bad record of a block, and 2 each where all are.
    without = sum(records[i] == b"x" for i in bad)
    suspected = sum(record[:1] in (b"y", b"z") for record in records)
    assert counting.calls <= 2 + 24 * 2 + suspected + 15 * without
    if share == 1:
        assert counting.calls <= 1100 + 24 * 2
