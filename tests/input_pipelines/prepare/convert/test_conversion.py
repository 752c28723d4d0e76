"""Tables become shards: the rows of each shard, restarts, refusals, and full disks."""

from __future__ import annotations

import datetime
import errno
import gzip
import json
import os
import pathlib
import random
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import feature_specs
from feature_specs.errors import ConfigError, Locked
from feature_specs.files import file_systems
from feature_specs.files.jobs import File, FolderError
from input_pipelines import own_code
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import conversion, plan
from input_pipelines.prepare.convert.conversion import convert
from input_pipelines.prepare.convert.options import ConvertOptions, DerivedLabel
from input_pipelines.prepare.convert.plan import Feature, ManifestDocument
from input_pipelines.prepare.convert.split import number_of
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.reading.selection import Selection
from input_pipelines.record_files import framing
from input_pipelines.transform.transforms import Transform

SPLIT = {"split_key": "user", "eval_fraction": 0.3}
SPLITS = {
    None: {},
    "key": SPLIT,
    "rows": {"split_rows": True, "eval_fraction": 0.3},
    "time": {"split_time": "row", "eval_fraction": 0.3},
    "key3": {**SPLIT, "test_fraction": 0.2},
    "rows3": {"split_rows": True, "eval_fraction": 0.3, "test_fraction": 0.2},
    "time3": {"split_time": "row", "eval_fraction": 0.3, "test_fraction": 0.2},
}


def of_records(spec):
    """The fingerprint of what a conversion reads of a spec."""
    return spec.fingerprint(("records", "values"), ("features", "labels"))


@pytest.fixture
def small_shards(monkeypatch):
    """Makes a MiB 10,000 bytes, so that shards have some hundred rows."""
    monkeypatch.setattr(plan, "_MIB", 10_000)


def make_rows(count, seed=0):
    rng = random.Random(seed)
    return [
        {
            "row": i,
            "user": f"user {rng.randrange(40)}",
            "price": rng.choice([None, 0.5, 2.25]),
            "tags": [rng.choice("abc") for _ in range(rng.randrange(3))],
        }
        for i in range(count)
    ]


def write(path, rows, **options):
    """Writes rows as a file; its name decides the kind. CSV has no lists."""
    path = str(path)
    if path.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path, **options)
    elif path.endswith(".csv"):
        lines = [",".join("" if row[k] is None else str(row[k]) for k in ("row", "user", "price"))
                 for row in rows]  # fmt: skip
        pathlib.Path(path).write_text("\n".join(["row,user,price", *lines]) + "\n")
    else:
        pathlib.Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def records(path):
    compression = "GZIP" if str(path).endswith(".gz") else ""
    return list(tf.data.TFRecordDataset(str(path), compression).as_numpy_iterator())


def rows_of(path):
    """The rows of a shard as Python values; None for an absent feature."""
    found = []
    for record in records(path):
        features = tf.train.Example.FromString(record).features.feature
        row = {"row": features["row"].int64_list.value[0]}
        row["user"] = features["user"].bytes_list.value[0].decode()
        row["price"] = next(iter(features["price"].float_list.value), None)
        row["tags"] = [tag.decode() for tag in features["tags"].bytes_list.value]
        found.append(row)
    return found


def shards(folder, part="*"):
    return sorted(pathlib.Path(folder).glob(f"{part}-*"))


def content(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


def test_stable_order_of_one_file(tmp_path, small_shards):
    rows = make_rows(2000)
    path = write(tmp_path / "a.parquet", rows, row_group_size=700)
    result = convert([path], directory=f"{tmp_path}/out", options=ConvertOptions(shard_mib=2))
    names = [shard.name for shard in shards(tmp_path / "out")]
    assert names == [f"data-{i:05}-of-{len(names):05}.tfrecord" for i in range(len(names))]
    assert len(names) == round(sum(os.path.getsize(s) for s in shards(tmp_path / "out")) / 20_000)
    assert [row for shard in shards(tmp_path / "out") for row in rows_of(shard)] == rows
    assert {p.name for p in (tmp_path / "out").iterdir()} - set(names) == {
        "_PLAN.json", "_MANIFEST.json", "_SUCCESS",
    }  # fmt: skip
    assert result.text().splitlines()[0] == (
        f"{tmp_path}/out: 2,000 rows of 1 file as Examples of 4 features"
    )


@pytest.mark.parametrize("order", ["stable", "shuffled"])
def test_a_row_that_is_too_large_for_a_record_names_its_file(tmp_path, monkeypatch, order):
    monkeypatch.setattr(framing, "LARGEST_RECORD", 1000)
    framing._header.cache_clear()
    path = write(tmp_path / "a.jsonl", [{"user": "ann"}, {"user": "x" * 1000}])
    options = ConvertOptions(order=order)
    with pytest.raises(DataError) as error:
        convert([path], directory=f"{tmp_path}/out", options=options, workers=1)
    # 3 bytes each for the value, the list, the feature, the entry and the features; 6 for the name.
    assert str(error.value).startswith(f"{path}: a record would have 1,021 bytes, expected at most "
                                       "1,000. Leave out its largest fields")  # fmt: skip
    assert not shards(tmp_path / "out")


def test_the_manifest(tmp_path):
    path = write(tmp_path / "a.csv", make_rows(300))
    spec = feature_specs.load(spec_file(tmp_path))
    convert(
        [path], directory=f"{tmp_path}/out", spec=spec, options=ConvertOptions(**SPLIT),
    )  # fmt: skip
    manifest = ManifestDocument.load(f"{tmp_path}/out/_MANIFEST.json")
    assert manifest.rows == 300 and manifest.record == "Example"
    assert manifest.spec == of_records(spec)
    assert manifest.files == [File(path=path, rows=300, bytes=os.path.getsize(path))]
    assert manifest.features == {
        name: Feature(dtype=dtype, list=False, feature_list=False)
        for name, dtype in (("user", "string"), ("price", "float32"), ("row", "int64"))
    }
    assert [entry.part for entry in manifest.shards] == ["train", "eval"]
    for entry in manifest.shards:
        written = (tmp_path / "out" / entry.name).read_bytes()
        assert (entry.bytes, entry.crc32) == (len(written), zlib.crc32(written))
        assert entry.rows == len(records(tmp_path / "out" / entry.name))
    assert (tmp_path / "out" / "_SUCCESS").read_bytes() == b""


def spec_file(folder, **features):
    document = {
        "features": {"user": {"dtype": "string"}, "price": {"dtype": "float32", "default": 0},
                     **features},
        "columns": {"u": {"hash_bucket": "user", "size": 9}, "p": {"numeric": "price"}},
        "groups": {"wide": ["u", "p"]},
        "labels": {"row": {"dtype": "int64"}},
        "objectives": {"row": {"head": "regression"}},
        "ignored": list(features),
    }  # fmt: skip
    (folder / "spec.yaml").write_text(json.dumps(document))
    return folder / "spec.yaml"


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.integers(0, 900), min_size=1, max_size=4).filter(any),
    st.sampled_from(["parquet", "csv", "jsonl"]),
    st.sampled_from(["stable", "shuffled"]),
    st.sampled_from(list(SPLITS)),
    st.integers(0, 3),
    st.randoms(use_true_random=False),
)
def test_every_row_once_and_a_key_on_one_side(counts, kind, order, splits, seed, rng):
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_MIB", 10_000)
        rows, files = make_rows(sum(counts)), []
        for i, count in enumerate(counts):
            start = sum(counts[:i])
            files.append(f"{folder}/{i}.{kind}")
            write(files[-1], rows[start : start + count], **(
                {"row_group_size": 250} if kind == "parquet" else {}
            ))  # fmt: skip
        if kind == "parquet" and not all(counts):
            return  # A file without rows has no columns.
        if kind == "csv":
            rows = [{**row, "tags": []} for row in rows]
        if splits in ("time", "time3") and len(rows) < 7:
            return  # One side would have no row.
        options = ConvertOptions(
            shard_mib=rng.choice([1, 2]), order=order, seed=seed, **SPLITS[splits]
        )
        out = f"{folder}/out"
        convert(files, directory=out, options=options)
        found = {shard.name: rows_of(shard) for shard in shards(out)}
        together = [row for some in found.values() for row in some]
        assert sorted(together, key=lambda row: row["row"]) == rows
        for name, some in found.items():
            part = name.split("-")[0]
            assert part in options.shares
            if splits in ("key", "key3"):
                bounds = {"eval": (0, 0.3), "test": (0.8, 1)}.get(part, (0.3, 0.8))
                bounds = (0.3, 1) if (splits, part) == ("key", "train") else bounds
                assert all(bounds[0] <= number_of(r["user"].encode()) < bounds[1] for r in some)
            if splits == "time":
                first = round(len(rows) * 0.7)
                assert all((r["row"] >= first) == (part == "eval") for r in some)
            if splits == "time3":
                test = round(len(rows) * 0.8)
                first = round(test * (1 - 0.3 * (len(rows) / test)))
                starts = {"train": (0, first), "eval": (first, test), "test": (test, len(rows))}
                assert all(starts[part][0] <= r["row"] < starts[part][1] for r in some)
            if order == "stable":
                assert [r["row"] for r in some] == sorted(r["row"] for r in some)
        # Some shards are missing, one is damaged: the same command writes the same bytes again.
        before = content(out)
        for shard in rng.sample(shards(out), rng.randint(1, len(shards(out)))):
            shard.unlink() if rng.random() < 0.5 else shard.write_bytes(b"damaged")
        result = convert(files, directory=out, options=options)
        assert content(out) == before and result.new >= 1
        assert convert(files, directory=out, options=options).already_done


def test_shuffled_over_all_files_by_the_seed(tmp_path, small_shards):
    rows = make_rows(3000)
    files = [write(tmp_path / f"{i}.parquet", rows[i * 1000 : i * 1000 + 1000]) for i in range(3)]

    def order(name, seed):
        options = ConvertOptions(shard_mib=8, order="shuffled", seed=seed)
        convert(files, directory=f"{tmp_path}/{name}", options=options)
        return [[row["row"] for row in rows_of(shard)] for shard in shards(tmp_path / name)]

    first = order("a", 1)
    assert len(first) > 1
    for numbers in first:
        assert {number // 1000 for number in numbers} == {0, 1, 2}
        # In a random order, one of two neighbors is larger.
        rising = sum(a < b for a, b in zip(numbers, numbers[1:])) / (len(numbers) - 1)
        assert 0.42 < rising < 0.58
    assert order("b", 1) == first
    assert order("c", 2) != first
    assert content(tmp_path / "a") != content(tmp_path / "c")


@pytest.mark.parametrize("order", [pytest.param("stable", marks=pytest.mark.ci), "shuffled"])
def test_the_number_of_processes_makes_no_difference(tmp_path, small_shards, order):
    path = write(tmp_path / "a.parquet", make_rows(1500), row_group_size=400)
    options = ConvertOptions(shard_mib=2, order=order, compression="gzip", **SPLIT)
    seen = []
    for workers in (1, 2):
        convert(
            [path], directory=f"{tmp_path}/{workers}", options=options, workers=workers,
            on_progress=lambda rows, done, shards: seen.append(rows),
        )  # fmt: skip
    assert content(tmp_path / "1") == content(tmp_path / "2")
    assert sum(seen) == (2 if order == "shuffled" else 4) * 1500  # Both sides read all rows.


def test_gzip_is_gzip(tmp_path):
    path = write(tmp_path / "a.csv", make_rows(20))
    for name in "ab":
        convert([path], directory=f"{tmp_path}/{name}", options=ConvertOptions(compression="gzip"))
    plain = convert([path], directory=f"{tmp_path}/c").shards
    (packed,) = shards(tmp_path / "a")
    assert packed.name == "data-00000-of-00001.tfrecord.gz"
    assert gzip.decompress(packed.read_bytes()) == b"".join(
        content(tmp_path / "c")[name] for name in plain
    )
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_options_of_csv_and_notes(tmp_path):
    (tmp_path / "a.csv").write_text('# of ours\n1; NA;"two;\nlines";0.123456789\n2; 3;x;7\n')
    result = convert(
        [f"{tmp_path}/a.csv"], directory=f"{tmp_path}/out",
        csv=CsvOptions(("n", "m", "word", "f"), ";", True, "#", ("NA",)),
    )  # fmt: skip
    (path,) = shards(tmp_path / "out")
    one, two = (tf.train.Example.FromString(r).features.feature for r in records(path))
    assert "m" not in one and two["m"].int64_list.value == [3]
    assert one["word"].bytes_list.value == [b"two;\nlines"]
    notes = [line for line in result.text().splitlines() if line.startswith("  note: ")]
    assert notes == [
        f"  note: word: 1 field with line breaks, the first one in {tmp_path}/a.csv: line 2",
        "  note: f: 1 value with more than 7 digits, rounded to a float32",
    ]


@pytest.mark.ci
@pytest.mark.parametrize("order", ["stable", pytest.param("shuffled", marks=pytest.mark.ci)])
def test_a_split_without_a_key(tmp_path, small_shards, order):
    rows = make_rows(2000)
    files = [write(tmp_path / "a.csv", rows[:900]), write(tmp_path / "b.csv", rows[900:])]
    sizes = {}
    for how in ("rows", "time"):
        options = ConvertOptions(order=order, shard_mib=1, **SPLITS[how])
        result = convert(files, directory=f"{tmp_path}/{how}", options=options)
        sizes[how] = {
            part: sum(len(records(path)) for path in shards(tmp_path / how, part))
            for part in ("train", "eval")
        }
        assert all(count > 100 for _, count in sizes[how].items()), sizes
        together = convert(files, directory=f"{tmp_path}/{how}3", options=options, workers=3)
        assert content(tmp_path / f"{how}3") == content(tmp_path / how) and together.rows == 2000
    assert sizes["time"] == {"train": 1400, "eval": 600}
    assert abs(sizes["rows"]["eval"] - 600) < 70  # Three standard deviations are 61.
    assert "  eval has the rows whose row is 1400 or later" in result.text().splitlines()
    manifest = ManifestDocument.load(f"{tmp_path}/time/_MANIFEST.json")
    assert manifest.options["eval_from"] == "1400"
    # A value in the place of the fraction gives the same records.
    options = ConvertOptions(order=order, shard_mib=1, split_time="row", eval_from="1400")
    convert(files, directory=f"{tmp_path}/from", options=options)
    assert content(tmp_path / "from") == content(tmp_path / "time")


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_every_shard_of_a_split_by_time_has_rows(tmp_path, small_shards, kind):
    """The rows are in the order of their times, so most parts of the files are on one side."""
    rows = make_rows(6000)
    parts = [rows[:900], rows[900:1000], rows[1000:4400], rows[4400:5400], rows[5400:]]
    files = [write(tmp_path / f"{i}.{kind}", part) for i, part in enumerate(parts)]
    for how, eval_from in (("later", 5000), ("latest", 5999), ("few", 1)):
        options = ConvertOptions(shard_mib=2, split_time="row", eval_from=str(eval_from))
        result = convert(files, directory=f"{tmp_path}/{how}", options=options)
        for part, first, last in (("train", 0, eval_from), ("eval", eval_from, 6000)):
            counts, found = [], []
            for path in shards(tmp_path / how, part):
                examples = map(tf.train.Example.FromString, records(path))
                numbers = [e.features.feature["row"].int64_list.value[0] for e in examples]
                counts.append(len(numbers))
                found += numbers
            assert found == list(range(first, last))
            assert min(counts) >= 1 and (len(counts) > 2) == (last - first > 900)
            if kind == "parquet":  # It is cut anywhere.
                assert max(counts) - min(counts) <= 1
        assert result.rows == 6000


def test_labels_from_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("user,event,rating\na,buy,4\nb,view,3\nc,order,2.5\nd,,\n")
    labels = ("bought=event:in:buy|order", "liked=rating:above:2.5", "viewed=event:equals:view")
    options = ConvertOptions(derived_labels=tuple(map(DerivedLabel.parse, labels)))
    result = convert([str(path)], directory=f"{tmp_path}/out", options=options)
    made = [
        {
            name: list(feature.int64_list.value)
            for name, feature in tf.train.Example.FromString(record).features.feature.items()
            if name in ("bought", "liked", "viewed")
        }
        for record in records(tmp_path / "out" / next(iter(result.shards)))
    ]
    assert made == [
        {"bought": [1], "liked": [1], "viewed": [0]},
        {"bought": [0], "liked": [1], "viewed": [1]},
        {"bought": [1], "liked": [0], "viewed": [0]},
        {},
    ]
    assert [line for line in result.text().splitlines() if "liked" in line] == [
        "  note: rating: the label liked is made from it, so a model must not read it"
    ]


def test_a_label_from_a_column_in_a_spec(tmp_path):
    """The spec has the label, and not the column. A row without a value is an error there."""
    path = tmp_path / "a.csv"
    path.write_text("user,price,amount\na,1,4\nb,2,0\nc,3,\n")
    spec = feature_specs.load(spec_file(tmp_path))
    options = ConvertOptions(derived_labels=(DerivedLabel.parse("row=amount:above:0"),))
    assert refused([str(path)], tmp_path / "out", spec=spec, options=options).startswith(
        f"{path}: line 4: column 'row' has no value, which is required, as {spec.source} says"
    )
    path.write_text("user,price,amount\na,1,4\nb,2,0\n")
    result = convert([str(path)], directory=f"{tmp_path}/out", spec=spec, options=options)
    found = [
        {name: list(feature.int64_list.value) for name, feature in example.items()}["row"]
        for example in (
            tf.train.Example.FromString(record).features.feature
            for record in records(tmp_path / "out" / next(iter(result.shards)))
        )
    ]
    assert found == [[1], [0]] and "amount" not in result.text()


def test_lists_in_the_fields_of_csv(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('user,tags,price\na,x|y,1\nb,z,\nc,,2.5\nd,"",0\n')
    csv = CsvOptions(list_separator="|")
    result = convert([str(path)], directory=f"{tmp_path}/out", csv=csv)
    made = []
    for record in records(tmp_path / "out" / next(iter(result.shards))):
        features = tf.train.Example.FromString(record).features.feature
        made.append([value.decode() for value in features["tags"].bytes_list.value])
    assert made == [["x", "y"], ["z"], [], []]


def test_lists_of_steps_by_a_flag_and_by_a_spec(tmp_path):
    rows = [{"n": 1, "prices": [2.5, 3.0], "words": ["a"]}, {"n": 2, "prices": [], "words": None}]
    path = write(tmp_path / "a.jsonl", rows)
    options = ConvertOptions(step_columns=("prices",))
    convert([path], directory=f"{tmp_path}/flag", options=options)
    (tmp_path / "spec.yaml").write_text(json.dumps({
        "features": {"prices": {"dtype": "float32", "feature_list": True},
                     "words": {"dtype": "string", "shape": "variable"}},
        "columns": {"p": {"sequence_numeric": "prices"}, "w": {"hash_bucket": "words", "size": 9}},
        "groups": {"steps": ["p"], "wide": ["w"]},
        "labels": {"n": {"dtype": "int64"}},
        "objectives": {"n": {"head": "regression"}},
    }))  # fmt: skip
    spec = feature_specs.load(tmp_path / "spec.yaml")
    result = convert([path], directory=f"{tmp_path}/spec", spec=spec)
    assert "as SequenceExamples of 3 features" in result.text()
    for name in ("flag", "spec"):
        (shard,) = shards(tmp_path / name)
        one, two = (tf.train.SequenceExample.FromString(record) for record in records(shard))
        steps = one.feature_lists.feature_list["prices"].feature
        assert [step.float_list.value[0] for step in steps] == [2.5, 3.0]
        assert one.context.feature["words"].bytes_list.value == [b"a"]
        assert not two.feature_lists.feature_list["prices"].feature
        assert set(two.context.feature) == {"n"}


def test_a_corrected_row_needs_no_other_folder(tmp_path):
    spec = feature_specs.load(spec_file(tmp_path))
    path = write(tmp_path / "a.jsonl", [{"row": 1, "user": None}, {"row": 2, "user": "a"}])
    with pytest.raises(DataError):
        convert([path], directory=f"{tmp_path}/out", spec=spec)
    assert not shards(tmp_path / "out") and (tmp_path / "out" / "_PLAN.json").exists()
    write(tmp_path / "a.jsonl", [{"row": 1, "user": "b"}, {"row": 2, "user": "a"}])
    assert convert([path], directory=f"{tmp_path}/out", spec=spec).rows == 2


class FullDisk:
    """A file on a disk with room for a fixed number of bytes."""

    left = 0

    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()

    def write(self, data):
        FullDisk.left -= len(data)
        if FullDisk.left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._file.write(data)


@pytest.mark.parametrize("order", ["stable", "shuffled"])
def test_a_full_disk(tmp_path, small_shards, monkeypatch, order):
    path = write(tmp_path / "a.parquet", make_rows(2500))
    options = ConvertOptions(shard_mib=2, order=order)
    expected = convert([path], directory=f"{tmp_path}/whole", options=options)
    size = sum(shard.bytes for shard in expected.shards.values())
    out = tmp_path / "out"
    real = file_systems.open_file
    with monkeypatch.context() as patch:
        patch.setattr(
            file_systems, "open_file",
            lambda path, mode: FullDisk(real(path, mode)) if mode == "wb" else real(path, mode),
        )  # fmt: skip
        seen = set()
        for room in range(0, 3 * size, size // 7 + 1):
            FullDisk.left = room + 3000
            try:
                convert([path], directory=str(out), options=options)
                break
            except OSError as error:
                assert error.errno == errno.ENOSPC
                assert str(error).endswith(
                    " could not be written: No space left on device; the shards that are finished "
                    "are kept: free some space and start the same command again"
                )
            seen.add(len(shards(out)))
            assert not (out / "_SUCCESS").exists() and not (out / "_MANIFEST.json").exists()
            for shard in shards(out):
                assert shard.read_bytes() == (tmp_path / "whole" / shard.name).read_bytes()
    assert len(seen) > 1
    convert([path], directory=str(out), options=options) if not (out / "_SUCCESS").exists() else 0
    assert content(out) == content(tmp_path / "whole")


# --- Refused -------------------------------------------------------------------------------------


def refused(files, folder, kind=DataError, **options):
    with pytest.raises(kind) as error:
        convert(files, directory=str(folder), **options)
    return str(error.value)


def test_times_that_an_earlier_version_wrote_as_other_texts(tmp_path):
    path, out = str(tmp_path / "a.parquet"), tmp_path / "out"
    at = [datetime.datetime(2026, 1, 31)] * 3
    pq.write_table(pa.table({"t": pa.array(at, pa.timestamp("ms")), "y": [0, 1, 1]}), path)
    convert([path], directory=str(out))
    plan = json.loads((out / "_PLAN.json").read_text())
    assert plan["features"]["t"].pop("text") == "times without a zone"
    (out / "_PLAN.json").write_text(json.dumps(plan))
    assert refused([path], out, FolderError) == (
        f"'{out}' holds another conversion, which differs in the features (t): "
        '{"dtype": "string", "list": false, "feature_list": false} there, '
        '{"dtype": "string", "list": false, "feature_list": false, "text": "times without a zone"} '
        "here; name another folder, or remove this one"
    )


@pytest.mark.parametrize("version", ["another", "before"])
def test_a_folder_that_another_version_of_the_kit_began(tmp_path, monkeypatch, version):
    """The other version may have put other rows into its shards."""
    path, out = write(tmp_path / "a.csv", make_rows(30)), tmp_path / "out"
    options = ConvertOptions(**SPLIT)
    convert([path], directory=str(out), options=options)
    if version == "another":
        monkeypatch.setattr(own_code, "of_reading", lambda: "another")
    else:
        plan = json.loads((out / "_PLAN.json").read_text())
        del plan["code"]
        (out / "_PLAN.json").write_text(json.dumps(plan))
    # What is finished stays valid.
    before = content(out)
    assert convert([path], directory=str(out), options=options).already_done
    assert content(out) == before
    began = (
        f"another version of estimator_kit began the conversion in '{out}', so its files and new "
        "ones may not go together; name an empty folder, or remove this one"
    )
    shard = shards(out)[0]
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1])
    assert refused([path], out, FolderError, options=options) == began
    (out / "_SUCCESS").unlink()
    assert refused([path], out, FolderError, options=options) == began
    del before["_SUCCESS"]
    assert content(out) == {**before, shard.name: whole[:-1]}
    # Flags that differ are told first, because they can be changed back.
    assert "differs in the flags (shard_mib): 100 there, 7 here" in refused(
        [path], out, FolderError, options=ConvertOptions(shard_mib=7, **SPLIT)
    )
    # Without a finished shard, there is nothing that new shards must go with.
    for each in (*shards(out), out / "_MANIFEST.json"):
        each.unlink()
    assert convert([path], directory=str(out), options=options).rows == 30
    assert shard.read_bytes() == whole
    assert convert([path], directory=str(out), options=options).already_done


def test_folders_that_hold_something_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, other = write("a.csv", make_rows(30)), write("b.csv", make_rows(30))
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    assert refused([path], out, FolderError) == (
        f"'{out}' holds 'notes.txt' and no _PLAN.json, so no conversion wrote it; name another "
        "folder, or move it away"
    )
    (out / "notes.txt").unlink()
    convert([path], directory=str(out), options=ConvertOptions(**SPLIT))
    before = content(out)
    assert refused([other], out, FolderError, options=ConvertOptions(**SPLIT)) == (
        f"'{out}' holds another conversion, which differs in the files that are converted: "
        '["a.csv"] there, ["b.csv"] here; name another folder, or remove this one'
    )
    assert refused([path], out, FolderError, options=ConvertOptions(shard_mib=7, **SPLIT)) == (
        f"'{out}' holds another conversion, which differs in the flags (shard_mib): 100 there, 7 "
        "here; name another folder, or remove this one"
    )
    spec = feature_specs.load(spec_file(tmp_path))
    message = refused([path], out, FolderError, options=ConvertOptions(**SPLIT), spec=spec)
    assert f'differs in the feature spec: null there, "{of_records(spec)}" here' in message
    (out / "more.tfrecord").write_text("mine")
    assert refused([path], out, FolderError, options=ConvertOptions(**SPLIT)) == (
        f"'{out}' holds 'more.tfrecord', which this conversion did not write; name another "
        "folder, or move it away"
    )
    (out / "more.tfrecord").unlink()
    assert content(out) == before
    os.utime(path, (1, 1))
    assert refused([path], out, FolderError, options=ConvertOptions(**SPLIT)) == (
        f"'{out}' holds another conversion, which differs in the files that are converted, which "
        "have changed since then; name another folder, or remove this one"
    )
    (out / "_PLAN.json").write_text("{}")
    assert refused([path], out, ConfigError) == (
        f"{out}/_PLAN.json: version is missing. Repair or remove it."
    )
    assert refused([path], path, FolderError) == f"'{path}' is not a folder; name another one"


def test_two_programs_at_one_folder(tmp_path):
    path = write(tmp_path / "a.csv", make_rows(30))
    inside = []

    def again(*_):
        inside.append(refused([path], tmp_path / "out", Locked))

    convert([path], directory=f"{tmp_path}/out", on_progress=again)
    assert inside[0] == (
        f"'{tmp_path}/out' is being written by another program. Try again when it has ended, or "
        "name another folder."
    )
    assert convert([path], directory=f"{tmp_path}/out").already_done


def test_places_that_tensorflow_knows(tmp_path, small_shards):
    rows = make_rows(900)
    for order in ("stable", "shuffled"):
        files = [write(tmp_path / f"{order}.jsonl", rows)]
        compression = "gzip" if order == "stable" else "none"
        options = ConvertOptions(shard_mib=2, order=order, compression=compression)
        for folder in (f"ram://{tmp_path}/{order}", f"{tmp_path}/{order}"):
            convert(files, directory=folder, options=options, workers=1)
        there = sorted(tf.io.gfile.listdir(f"ram://{tmp_path}/{order}"))
        assert there == sorted(os.listdir(tmp_path / order)) and len(there) > 5
        for name in there:
            with tf.io.gfile.GFile(f"ram://{tmp_path}/{order}/{name}", "rb") as file:
                assert file.read() == (tmp_path / order / name).read_bytes()
        again = convert(files, directory=f"ram://{tmp_path}/{order}", options=options, workers=1)
        assert again.already_done


def test_tables_that_do_not_fit_the_spec(tmp_path):
    spec = feature_specs.load(spec_file(
        tmp_path, pair={"dtype": "float32", "shape": [2]}, day={"dtype": "int64"},
        steps={"dtype": "int64", "feature_list": True}, gone={"dtype": "int64"},
    ))  # fmt: skip
    path = write(tmp_path / "a.jsonl", [
        {"usr": "ann", "price": "2", "pair": 1.5, "day": 1.5, "steps": 3, "row": None},
    ])  # fmt: skip
    assert refused([path], tmp_path / "out", spec=spec).splitlines() == [
        f"{path} does not fit the spec",
        f"column 'user' is missing, but {tmp_path}/spec.yaml requires it. Did you mean 'usr'?",
        f"column 'price' is string, but {tmp_path}/spec.yaml says float32; correct the spec, or "
        "the table",
        f"column 'pair' has one value in each row, but {tmp_path}/spec.yaml says 2, which needs a "
        "column of lists",
        f"column 'day' is float32, but {tmp_path}/spec.yaml says int64; correct the spec, or the "
        "table",
        f"column 'steps' has one value in each row, but {tmp_path}/spec.yaml says feature_list: "
        "true, which needs a column of lists",
        f"column 'row' has no value in any row, but {tmp_path}/spec.yaml requires it",
    ]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "row, message",
    [
        ({"user": None}, "column 'user' has no value, which is required, as "),
        ({"row": None}, "column 'row' has no value, which is required, as "),
        ({"pair": [1.0]}, "column 'pair' has 1 value, expected 2, as "),
        ({"price": [1.0, 2.0]}, "column 'price' has 2 values, expected 1, as "),
    ],
)
def test_rows_that_would_stop_training(tmp_path, row, message):
    spec = feature_specs.load(spec_file(tmp_path, pair={"dtype": "float32", "shape": [2]}))
    good = {"user": "ann", "row": 1, "pair": [1.0, 2.0], "price": [1.0]}
    path = write(tmp_path / "a.jsonl", [good, {**good, **row}])
    assert refused([path], tmp_path / "out", spec=spec) == (
        f"{path}: row 2: {message}{tmp_path}/spec.yaml says; a training would stop there: correct "
        "the row, or the spec"
    )
    assert not shards(tmp_path / "out")


LEARNED = {
    "features": {
        "hour": {"dtype": "int64", "default": -1},
        "age": {"dtype": "float32", "default": 0},
        "source": {"dtype": "string", "default": "web"},
        "trust": {"dtype": "float32", "default": 1},
        "ids": {"dtype": "int64", "shape": "variable"},
        "counts": {"dtype": "float32", "shape": "variable"},
        "spare": {"dtype": "int64", "default": 0},
    },
    "columns": {
        "hour_id": {"identity": "hour", "size": 24},
        "hour_vector": {"embedding": "hour_id", "dimension": 2},
        "age_number": {"numeric": "age"},
        "id": {"identity": "ids", "size": 5},
        "id_count": {"weighted": "id", "weight": "counts"},
        "id_vector": {"embedding": "id_count", "dimension": 2},
        "spare_id": {"identity": "spare", "size": 9, "default_id": 0},
        "spare_vector": {"embedding": "spare_id", "dimension": 2},
    },
    "groups": {"deep": ["hour_vector", "age_number", "id_vector", "spare_vector"]},
    "labels": {
        "click": {"dtype": "int64", "weight": "trust"},
        "kind": {"dtype": "string", "vocabulary": ["a", "b", "c"]},
        "topics": {"dtype": "int64", "shape": "variable", "missing": "no_class"},
        "stars": {"dtype": "int64", "missing": "mask"},
        "price": {"dtype": "float32"},
    },
    "objectives": {
        "click": {"head": "binary"},
        "kind": {"head": "multi_class", "num_classes": 3},
        "topics": {"head": "multi_label", "num_classes": 4},
        "stars": {"head": "multi_class", "num_classes": 5},
        "price": {"head": "poisson"},
    },
    "filter": [
        {"feature": "source", "not_in": ["robot"]}, {"feature": "trust", "max": 9},
    ],
}  # fmt: skip

LEARNED_ROW = {
    "hour": 23, "age": 30.5, "trust": 1.0, "ids": [1, 4], "counts": [1.0, 2.0], "spare": 99,
    "click": 1, "kind": "b", "topics": [0, 3], "stars": None, "price": 2.5, "source": "app",
}  # fmt: skip


@pytest.mark.parametrize(
    "change, message",
    [
        ({"click": 7}, "'click' has 7, expected 0 or 1 for the binary head of objective 'click'"),
        ({"kind": "d"}, "'kind' has b'd', expected one of a, b, c"),
        ({"topics": [4, 9]},
         "'topics' has 4, expected 0 to 3 for the multi_label head of objective 'topics'"),
        ({"stars": -1},
         "'stars' has -1, expected 0 to 4 for the multi_class head of objective 'stars'"),
        ({"price": -0.5}, "'price' has -0.5, expected 0 or more for the poisson head "
                          "of objective 'price'"),
        ({"trust": -1.0}, "'trust' has -1.0, expected 0 or more for the weight of a label"),
        ({"hour": 24}, "'hour' has 24, expected 0 to 23 (raise the column's size or give it a "
                       "default_id)"),
        ({"ids": [0, -1]}, "'ids' has -1, expected 0 to 4 (raise the column's size or give it a "
                           "default_id)"),
        ({"ids": [0]}, "'counts' has 2 values, expected 1, as many as column 'ids'"),
        ({"hour": -1, "age": None, "trust": None, "ids": [], "counts": [], "topics": []}, None),
        ({"source": "robot", "click": 7, "kind": None, "ids": [9]}, None),
        ({"trust": 9.5, "hour": 24}, None),
        ({"source": None, "click": 7},
         "'click' has 7, expected 0 or 1 for the binary head of objective 'click'"),
    ],
)  # fmt: skip
def test_values_that_would_stop_training(tmp_path, change, message):
    spec = feature_specs.parse(LEARNED, source="spec.yaml")
    rows = [{**LEARNED_ROW, "source": "robot", "click": 5}, LEARNED_ROW, {**LEARNED_ROW, **change}]
    path = write(tmp_path / "a.parquet", rows)
    out = tmp_path / "out"
    if message is not None:
        assert refused([path], out, spec=spec) == (
            f"{path}: row 3: column {message}, as spec.yaml says; a training would stop there: "
            "correct the row, or the spec"
        )
        return
    convert([path], directory=str(out), spec=spec)
    found = [record for shard in shards(out) for record in records(shard)]
    # Training can read the converted files.
    Transform(spec).features_and_labels(Selection(spec).passing(tf.constant(found)))


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_numbers_that_are_not_finite(tmp_path, value):
    spec = feature_specs.load(spec_file(tmp_path))
    (tmp_path / "a.csv").write_text(f"row,user,price\n1,ann,2\n2,bob,{value}\n")
    assert refused([f"{tmp_path}/a.csv"], tmp_path / "out", spec=spec).startswith(
        f"{tmp_path}/a.csv: line 3: column 'price' has {value}, expected a finite number, as "
    )


def test_a_list_label_without_a_class(tmp_path):
    (tmp_path / "spec.yaml").write_text(json.dumps({
        "features": {"user": {"dtype": "string"}},
        "columns": {"u": {"hash_bucket": "user", "size": 9}},
        "groups": {"wide": ["u"]},
        "labels": {"tags": {"dtype": "int64", "shape": "variable"}},
        "objectives": {"tags": {"head": "multi_label", "num_classes": 3}},
    }))  # fmt: skip
    spec = feature_specs.load(tmp_path / "spec.yaml")
    path = write(tmp_path / "a.jsonl", [{"user": "a", "tags": [1]}, {"user": "a", "tags": []}])
    assert refused([path], tmp_path / "out", spec=spec).startswith(
        f"{path}: row 2: column 'tags' has no value, which is required, as "
    )


def test_columns_that_the_spec_does_not_name_are_left_out_with_a_note(tmp_path):
    spec = feature_specs.load(spec_file(tmp_path, seen={"dtype": "int64"}))
    rows = [{"row": 1, "user": "a", "key": 7, "deep": {"x": 1}, "seen": 5}]
    result = convert(
        [write(tmp_path / "a.parquet", rows)], directory=f"{tmp_path}/out", spec=spec,
        options=ConvertOptions(split_key="key", eval_fraction=0.5),
    )  # fmt: skip
    assert result.text().splitlines()[-2:] == [
        "  left out because the spec does not name them: deep",
        "  note: price: the table has no such column, so no record has it",
    ]
    (record,) = [r for shard in shards(tmp_path / "out") for r in records(shard)]
    assert set(tf.train.Example.FromString(record).features.feature) == {"row", "user", "seen"}
    empty = next(part for part in ("train", "eval") if not records(
        tmp_path / "out" / f"{part}-00000-of-00001.tfrecord"))  # fmt: skip
    assert f"  warning: the hash of --split puts no key into {empty}" in result.text()


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.csv", "a,b\n1,2\n1,2,3\n", "{path}: line 3: has 3 fields, expected 2: '1,2,3'"),
        ("a.csv", b"a,b\n1,\xff\n", "{path}: line 2: column 'b' is not UTF-8: b'\\xff'. Write the "
         "file again in UTF-8"),
        ("a.csv", "a,b\n", "{path} has no rows, so nothing can be converted"),
        ("a.csv", "a,b\n,\n", "no column of {path} has a value; nothing to write"),
        ("a.tfrecord", "x", "{path} is TFRecord by its name; the names of tables end in .csv, "
         ".tsv, .json, .jsonl, .parquet, .svm, .svmlight, .libsvm or .txt"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_converted(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert refused([str(path)], tmp_path / "out") == message.format(path=path)
    assert not (tmp_path / "out").exists()


def test_a_value_that_is_not_a_number(tmp_path):
    (tmp_path / "a.csv").write_text("user,price,row\na,1.5,1\nb,cheap,2\n")
    spec = feature_specs.load(spec_file(tmp_path))
    assert refused([f"{tmp_path}/a.csv"], tmp_path / "out", spec=spec) == (
        f"{tmp_path}/a.csv: line 3: column 'price': got 'cheap', expected float32, as the spec "
        "says; correct the spec, or name the values that mean missing with --csv_missing"
    )


def test_parquet_columns_of_other_types(tmp_path):
    path = write(tmp_path / "a.parquet", [{"n": 1, "deep": {"x": 1}}])
    assert refused([path], tmp_path / "out") == (
        f"{path}: column 'deep' is struct<x: int64>, which a feature cannot store. Write its parts "
        "as separate columns, or leave it out of the file"
    )


@pytest.mark.parametrize(
    "options, message",
    [
        ({"split_key": "usr"}, "--split: the table has no column 'usr'. Did you mean 'user'? "
         "Its columns are row, user, price, tags. If all rows are independent, use --split=rows."),
        ({"split_time": "rows"}, "--split: the table has no column 'rows'. Did you mean "
         "'row'? Its columns are row, user, price, tags."),
        ({"split_time": "price"}, "--split: column 'price' is read as float32, which "
         "rounds numbers. Write times as integers or as 2026-01-31 10:00:00. If the file has "
         "integers, write dtype: int64 in the spec"),
        ({"split_time": "row", "eval_from": "9"}, "--split_eval: no row is at 9 or later, but "
         "training and evaluation both need rows. Column 'row' goes from 0 to 8"),
        ({"split_time": "row", "eval_from": "x"}, "--split_eval: got 'x', expected an integer, as "
         "in the column. Write an integer"),
        ({"derived_labels": (DerivedLabel("user", "price", "above", ("1",)),)},
         "--derive_labels: the table has a column 'user' already. Choose another name for the "
         "label"),
        ({"derived_labels": (DerivedLabel("a", "users", "equals", ("1",)),)},
         "--derive_labels: the table has no column 'users'. Did you mean 'user'? Its columns are "
         "row, user, price, tags."),
        ({"split_key": "price"}, "--split: column 'price' is read as float32, which rounds "
         "numbers; a key must be text or an integer in every row. If the file has integers, write "
         "dtype: int64 in the spec"),
        ({"split_key": "tags"}, "--split: column 'tags' has lists; a key must be text or an "
         "integer in every row"),
        ({"step_columns": ("tag",)}, "--step_columns: the table has no column 'tag'. Did you mean "
         "'tags'?"),
        ({"step_columns": ("row",)}, "--step_columns: column 'row' has one value in each row; a "
         "feature list needs a column of lists"),
    ],
)  # fmt: skip
def test_missing_and_unsuitable_columns(tmp_path, options, message):
    path = write(tmp_path / "a.parquet", make_rows(9))
    options = ConvertOptions(eval_fraction=0.1, **options)
    assert refused([path], tmp_path / "out", options=options) == message


def test_a_file_that_changes_while_it_is_read(tmp_path, monkeypatch):
    path = write(tmp_path / "a.csv", make_rows(30))
    real = conversion.plans.make

    def planned(*arguments):
        made = real(*arguments)
        write(tmp_path / "a.csv", make_rows(29))
        return made

    monkeypatch.setattr(conversion.plans, "make", planned)
    assert refused([path], tmp_path / "out") == (
        f"{path}: 30 rows were counted, but 29 were read. Check whether the file was changed "
        "during the conversion"
    )
    assert not shards(tmp_path / "out")


@pytest.mark.parametrize(
    "options",
    [
        {"split_key": "x", "eval_fraction": 0.3},
        {"split_time": "x", "eval_fraction": 0.3},
        {"order": "shuffled"},
    ],
)
def test_decimals_without_fractions_are_written_like_integers(tmp_path, options):
    numbers = pa.array([2**53 + i for i in range(100)], pa.int64())
    written = []
    for dtype in (pa.int64(), pa.decimal128(38, 0)):
        path = str(tmp_path / "a.parquet")
        pq.write_table(pa.table({"x": numbers.cast(dtype)}), path)
        folder = tmp_path / str(dtype)
        convert([path], directory=str(folder), options=ConvertOptions(**options), workers=1)
        written.append([path.read_bytes() for path in shards(folder)])
    assert written[0] == written[1] and len(written[0]) == (1 if "order" in options else 2)
