"""A plain log becomes sequences: their values, order, splits, restarts and refusals."""

from __future__ import annotations

import collections
import datetime
import json
import pathlib
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

import feature_specs
from feature_specs.files.jobs import FolderError
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import sequence_plan, sequences
from input_pipelines.prepare.convert.options import ConvertOptions, DerivedLabel, SequenceOptions
from input_pipelines.prepare.convert.plan import ManifestDocument
from input_pipelines.prepare.convert.split import number_of

LOG = """user,time,item,category,page
ann,3,c,x,p
bob,1,a,y,p
ann,1,a,x,p
ann,2,b,y,p
cat,9,d,x,p
ann,4,d,x,p
bob,1,b,y,p
dan,1,b,x,p
dan,2,a,x,p
dan,3,a,x,p
"""


def options(steps=None, targets="next", columns=("item", "category"), **values):
    how = SequenceOptions("user", "time", columns, steps, targets)
    return ConvertOptions(sequences=how, **values)


def write(folder, text=LOG, name="log.csv"):
    path = folder / name
    path.write_text(text)
    return str(path)


def convert(folder, *files, out="out", spec=None, **values):
    return sequences.convert(files, directory=f"{folder}/{out}", options=options(**values),
                             spec=spec)  # fmt: skip


def records(folder, part):
    """The records of a part in the order of its shards, as dicts of values."""
    found = []
    for path in sorted(pathlib.Path(folder).glob(f"{part}-*")):
        compression = "GZIP" if path.name.endswith(".gz") else ""
        for record in tf.data.TFRecordDataset(str(path), compression).as_numpy_iterator():
            row = {}
            for name, feature in tf.train.Example.FromString(record).features.feature.items():
                values = list(getattr(feature, feature.WhichOneof("kind")).value)
                row[name] = [v.decode() if isinstance(v, bytes) else v for v in values]
            found.append(row)
    return found


def record(user, items, categories, targets):
    return {"user": [user], "item": list(items), "category": list(categories),
            "next_item": list(targets)}  # fmt: skip


def test_next_sorts_each_history_and_shifts_it(tmp_path):
    result = convert(tmp_path, write(tmp_path), steps=2)
    assert records(tmp_path / "out", "data") == [
        record("ann", "a", "x", "b"),
        record("ann", "bc", "yx", "cd"),
        record("bob", "a", "y", "b"),  # Equal times stay in the order of the file.
        record("dan", "ba", "xx", "aa"),
    ]
    out = f"{tmp_path}/out"
    assert result.text().split(" in 1 shard")[0].splitlines() == [
        f"{out}: 4 Examples of 4 features from 10 rows of 1 file, 4 values of user",
        f"  {out}/data-*: 4 records with 6 targets",
    ]
    assert result.text().splitlines()[2:] == [
        "  left out: 1 value of user with only 1 row, which has no next item",
        "  left out because no flag names them: page",
        "  note: time: 1 row in the files before an earlier row of the same user; each history was "
        "sorted",
        "  note: time: 1 row with the same time as the row before of the same user; they stay in "
        "the order of the files",
    ]


def test_leave_one_out_writes_three_parts(tmp_path):
    result = convert(tmp_path, write(tmp_path), steps=2, targets="leave_one_out")
    assert records(tmp_path / "out", "train") == [
        record("ann", "a", "x", "b"),
        record("bob", "a", "y", "b"),
    ]
    assert records(tmp_path / "out", "eval") == [
        record("ann", "ab", "xy", "bc"),
        record("dan", "b", "x", "a"),
    ]
    assert records(tmp_path / "out", "test") == [
        record("ann", "bc", "yx", "cd"),
        record("dan", "ba", "xx", "aa"),
    ]
    assert result.text().splitlines()[4:7] == [
        "  left out: 1 value of user with only 1 row, which has no next item",
        "  only in train: 1 value of user with only 2 rows, because eval and test need 3",
        "  only in eval and test: 1 value of user with only 3 rows, which leave no target for "
        "train",
    ]
    manifest = ManifestDocument.load(f"{tmp_path}/out/_MANIFEST.json")
    assert [shard.part for shard in manifest.shards] == ["train", "eval", "test"]
    assert manifest.options["sequences"] == {
        "by": "user", "order_by": "time", "columns": ["item", "category"], "steps": 2,
        "targets": "leave_one_out",
    }  # fmt: skip


def random_log(seed, count=3000):
    rng = random.Random(seed)
    return [
        {"user": rng.randrange(200), "time": rng.randrange(500), "item": rng.randrange(50),
         "category": rng.choice(["x", "y"])}
        for _ in range(count)
    ]  # fmt: skip


def expected(rows, most):
    """The records with --targets=next, in plain Python."""
    users = collections.defaultdict(list)
    for row in rows:
        users[row["user"]].append(row)
    for user, events in users.items():
        events.sort(key=lambda row: row["time"])
        pairs = list(zip(events, events[1:]))
        first = len(pairs) % most or most
        cuts = [0, *range(first, len(pairs) + 1, most)] if pairs else [0]
        for start, stop in zip(cuts, cuts[1:]):
            some = pairs[start:stop]
            yield {
                "user": [user],
                "item": [before["item"] for before, _ in some],
                "category": [before["category"] for before, _ in some],
                "next_item": [after["item"] for _, after in some],
            }


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_all_kinds_of_files_against_plain_python(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(sequence_plan, "_MIB", 5000)
    monkeypatch.setattr(sequence_plan, "_STEPS", 50)
    rows = random_log(1)
    files = []
    for i, some in enumerate([rows[:1000], rows[1000:1001], rows[1001:]]):
        path = tmp_path / f"{i}.{kind}"
        files.append(str(path))
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(some), path)
        elif kind == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in some))
        else:
            lines = [",".join(map(str, row.values())) for row in [dict.fromkeys(rows[0]), *some]]
            path.write_text("\n".join([",".join(rows[0]), *lines[1:]]) + "\n")
    result = convert(tmp_path, *files, steps=7, shard_mib=1)
    found = records(tmp_path / "out", "data")
    assert found == list(expected(rows, 7))
    assert len(result.shards) > 3
    shuffled = convert(tmp_path, *files, steps=7, shard_mib=1, out="shuffled", order="shuffled",
                       compression="gzip")  # fmt: skip
    assert len(shuffled.shards) == len(result.shards)
    others = records(tmp_path / "shuffled", "data")
    assert others != found and sorted(map(str, others)) == sorted(map(str, found))


def test_a_key_is_on_one_side(tmp_path):
    rows = random_log(2)
    path = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    convert(tmp_path, str(path), steps=7, split_key="user", eval_fraction=0.3, test_fraction=0.2)
    all_of_them = list(expected(rows, 7))
    for part, low, high in (("train", 0.3, 0.8), ("eval", 0, 0.3), ("test", 0.8, 1)):
        assert records(tmp_path / "out", part) == [
            made for made in all_of_them if low <= number_of(str(made["user"][0]).encode()) < high
        ]


def test_times_with_more_digits_than_a_feature_can_have(tmp_path):
    """Seconds since 1970 as a float32 would be equal for two minutes."""
    text = "user,time,item\na,1700000001.5,y\na,1700000000.5,x\na,1700000002.5,z\n"
    result = convert(tmp_path, write(tmp_path, text), columns=("item",))
    (made,) = records(tmp_path / "out", "data")
    assert made == {"user": ["a"], "item": ["x", "y"], "next_item": ["y", "z"]}
    assert "rounded" not in result.text()


def test_a_derived_label_can_be_a_sequence_column(tmp_path):
    options = ConvertOptions(
        sequences=SequenceOptions("user", "time", ("item", "is_x")),
        derived_labels=(DerivedLabel.parse("is_x=category:equals:x"),),
    )
    sequences.convert([write(tmp_path)], directory=f"{tmp_path}/out", options=options)
    assert records(tmp_path / "out", "data")[0] == {
        "user": ["ann"], "item": list("abc"), "is_x": [1, 0, 1], "next_item": list("bcd"),
    }  # fmt: skip


def test_steps_can_be_feature_lists(tmp_path):
    made = options(step_columns=("item", "next_item"))
    result = sequences.convert([write(tmp_path)], directory=f"{tmp_path}/out", options=made)
    assert result.text().splitlines()[0].split(": ")[1].startswith("3 SequenceExamples of 4 ")
    (shard,) = (tmp_path / "out").glob("data-*")
    record = next(tf.data.TFRecordDataset(str(shard)).as_numpy_iterator())
    found = tf.train.SequenceExample.FromString(record)
    steps = {
        name: [step.bytes_list.value[0].decode() for step in steps.feature]
        for name, steps in found.feature_lists.feature_list.items()
    }
    assert steps == {"item": list("abc"), "next_item": list("bcd")}
    assert set(found.context.feature) == {"user", "category"}


def test_notes_are_about_columns_of_the_records(tmp_path):
    """A time is read as a time, so no note says that it became text."""
    day = datetime.date(2026, 1, 1)
    rows = [{"user": 1, "time": day, "item": day, "category": "x"}] * 2
    path = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    notes = [line for line in convert(tmp_path, str(path)).text().splitlines() if "text" in line]
    assert len(notes) == 1 and notes[0].startswith("  note: item: date32[day], read as text")


def spec_of(folder, **labels):
    document = {
        "features": {"item": {"dtype": "string", "shape": "variable"}, "user": {"dtype": "string"}},
        "columns": {"i": {"hash_bucket": "item", "size": 9, "sequence": True},
                    "i_emb": {"embedding": "i", "dimension": 2}},
        "groups": {"steps": ["i_emb"]},
        "labels": {"next_item": {"dtype": "string", "shape": "variable",
                                 "vocabulary": ["a", "b", "c", "d"], **labels}},
        "objectives": {"next_item": {"head": "multi_label",
                                     "num_classes": len(labels.get("vocabulary", "abcd"))}},
        "ignored": ["user"],
    }  # fmt: skip
    path = folder / "spec.yaml"
    path.write_text(json.dumps(document))
    return feature_specs.load(str(path))


def test_next_items_of_a_hash_bucket_column_may_be_any_text(tmp_path):
    document = {
        "features": {"item": {"dtype": "string", "shape": "variable"}, "user": {"dtype": "string"}},
        "columns": {"i": {"hash_bucket": "item", "size": 9, "sequence": True},
                    "i_emb": {"embedding": "i", "dimension": 2}},
        "groups": {"steps": ["i_emb"]},
        "labels": {"next_item": {"dtype": "string", "shape": "variable"}},
        "objectives": {"next_item": {"head": "next_item", "items": "i"}},
        "ignored": ["user"],
    }  # fmt: skip
    convert(tmp_path, write(tmp_path), spec=feature_specs.parse(document))
    assert records(tmp_path / "out", "data")[0]["next_item"] == list("bcd")


def test_a_spec_decides_features_and_checks_values(tmp_path):
    convert(tmp_path, write(tmp_path), spec=spec_of(tmp_path))
    assert records(tmp_path / "out", "data")[0] == {
        "user": ["ann"], "item": list("abc"), "next_item": list("bcd"),
    }  # fmt: skip
    with pytest.raises(DataError) as error:
        convert(tmp_path, write(tmp_path), out="b", spec=spec_of(tmp_path, vocabulary=["a", "b"]))
    assert str(error.value).startswith("user 'ann': column 'next_item' has b'c', expected ")
    assert not (tmp_path / "b" / "_SUCCESS").exists()


@pytest.mark.parametrize("order", ["stable", "shuffled"])
def test_a_conversion_that_is_started_again(tmp_path, monkeypatch, order):
    monkeypatch.setattr(sequence_plan, "_MIB", 100)
    path = write(tmp_path)
    first = convert(tmp_path, path, steps=1, shard_mib=1, order=order)
    whole = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    assert first.new == len(first.shards) > 2
    assert convert(tmp_path, path, steps=1, shard_mib=1, order=order).already_done
    name = sorted(first.shards)[1]
    (tmp_path / "out" / name).write_bytes(b"damaged")
    second = convert(tmp_path, path, steps=1, shard_mib=1, order=order)
    assert second.new == 1 and f"{len(first.shards) - 1} shards existed already" in second.text()
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == whole
    with pytest.raises(FolderError, match=r"differs in the flags \(sequences\)"):
        convert(tmp_path, path, steps=2, shard_mib=1, order=order)


@pytest.mark.parametrize(
    "text, message",
    [
        ("user,time,item,category\nu,1,a,x\n,2,b,x\n",
         "{}: line 3: column 'user' has no value, but --sequence_by needs one in every row. Write "
         "a value for it, or remove the row"),
        ("user,time,item,category\nu,1,a,x\nu,2,,x\n",
         "{}: line 3: column 'item' has no value, but --sequence_columns needs one in every row. "
         "Write a value for it, or remove the row"),
        ("user,time,item,category\nu,1,a,x\nu,,b,x\n",
         "{}: line 3: column 'time' has no value, but --order_by needs one in every row. Correct "
         "the row"),
        ("user,time,item,category\nu,1,a,x\nv,2,b,x\n",
         "{}: every user has only 1 row, so no row has a next one. Check --sequence_by, or give "
         "more files"),
        ("user,time,item,category\n", "{} has no rows, so nothing can be converted"),
        ("user,when,item,category\nu,1,a,x\n",
         "--order_by: the table has no column 'time'. Its columns are user, item, category, when."),
        ("users,time,item,category\nu,1,a,x\n",
         "--sequence_by: the table has no column 'user'. Did you mean 'users'? Its columns are "
         "time, item, category, users."),
        ("user,time,items,category\nu,1,a,x\n",
         "--sequence_columns: the table has no column 'item'. Did you mean 'items'? Its columns "
         "are user, time, category, items."),
        ("user,time,item,category\n1.5,1,a,x\n",
         "--sequence_by: column 'user' is read as float32, which rounds numbers; a key must be "
         "text or an integer in every row. If the file has integers, write dtype: int64 in the "
         "spec"),
        ("user,time,item,category\nu,1,,x\n",
         "--sequence_columns: column 'item' has no value in any row"),
    ],
)  # fmt: skip
def test_logs_that_cannot_become_sequences(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(DataError) as error:
        convert(tmp_path, path)
    assert str(error.value) == message.format(path)
    assert not (tmp_path / "out").exists()


def test_a_column_of_lists_is_no_event(tmp_path):
    path = write(tmp_path, '{"user": 1, "time": 1, "item": ["a"], "category": "x"}\n', "log.jsonl")
    with pytest.raises(DataError) as error:
        convert(tmp_path, path)
    assert str(error.value) == (
        "--sequence_columns: column 'item' has lists; name a column with one value a row"
    )
