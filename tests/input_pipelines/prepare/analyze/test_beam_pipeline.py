"""An analysis with Beam writes the same bytes as one on this machine."""

from __future__ import annotations

import random

import pytest
import tensorflow as tf

from input_pipelines.errors import DataError
from input_pipelines.prepare.analyze import first_spec, refresh, scan, summary
from input_pipelines.record_files import writing
from tests.beam import FLAGS, needs_beam
from tests.input_pipelines.prepare.convert.test_conversion import write


def make_rows(count, seed):
    rng = random.Random(seed)
    return [
        {
            "row": i % 2, "user": f"user {int(rng.paretovariate(0.7)) % 3000}",
            "price": rng.choice([None, 0.5, rng.gauss(0, 1e9)]),
        }
        for i in range(count)
    ]  # fmt: skip


def files_of(folder, kind):
    files = [f"{folder}/{i}.{kind}" for i in range(3)]
    for i, path in enumerate(files):
        rows = make_rows(900, i)
        if kind == "tfrecord":
            writing.write_examples(path, [{**row, "tags": [b"\xff\x00", "a"]} for row in rows])
        else:
            write(path, rows)
    return files


def content(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def small_groups(monkeypatch):
    """Makes each file a group, and reads the groups one after the other."""
    for name in ("group_bytes", "workers"):
        monkeypatch.setitem(scan.scan.__kwdefaults__, name, 1)


@needs_beam
@pytest.mark.parametrize("kind", ["tfrecord", "csv", "parquet"])
def test_the_same_files(tmp_path, small_groups, kind):
    files = files_of(tmp_path, kind)
    arguments = {"labels": ["row"], "exact_limit": 200}
    here = first_spec.write(files, directory=f"{tmp_path}/here", **arguments).report
    there = first_spec.write(files, directory=f"{tmp_path}/there", beam=FLAGS, **arguments).report
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert "vocabularies/user.counts.tsv" in content(tmp_path / "here")
    assert there == here.replace("/here/", "/there/")
    for folder in ("here", "there"):
        with open(f"{tmp_path}/{folder}/spec.yaml", "a") as file:
            file.write("filter: [{feature: user, not_in: [user 1]}]\n")
    files = files[:2]
    here = refresh.refresh(f"{tmp_path}/here/spec.yaml", files)
    there = refresh.refresh(f"{tmp_path}/there/spec.yaml", files, beam=FLAGS)
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert there == here.replace("/here/", "/there/") and " of 1,800 records of 2 files" in there


@needs_beam
def test_the_same_errors(tmp_path, small_groups):
    files = files_of(tmp_path, "tfrecord")
    with tf.io.TFRecordWriter(files[1]) as writer:
        writer.write(b"no")
    with pytest.raises(DataError) as error:
        scan.scan(files, beam=FLAGS)
    assert str(error.value) == (
        f"{files[1]}: record 0: is not a serialized tf.train.Example or SequenceExample"
    )
    writing.write_examples(files[1], [{"row": "text"}])
    errors = []
    for options in ({"workers": 1}, {"beam": FLAGS}):
        with pytest.raises(DataError) as error:
            scan.scan(files, **options)
        errors.append(str(error.value))
    assert errors[0] == errors[1]
    assert errors[0].startswith("feature 'row' is int64 in ")


@needs_beam
def test_workers_that_do_not_reach_the_folder_of_this_program(tmp_path, small_groups):
    files = files_of(tmp_path, "tfrecord")
    flags = [*FLAGS, f"--temp_location={tmp_path}/shared"]
    found = scan.scan(files, beam=flags)
    assert found.statistics(3).as_text() == scan.scan(files).statistics(3).as_text()
    assert list((tmp_path / "shared").iterdir()) == []


@pytest.mark.parametrize("limit", [20, 100_000])
@pytest.mark.parametrize("kind", ["tfrecord", "csv", "sequences"])
def test_summaries_as_bytes(tmp_path, kind, limit):
    if kind == "sequences":
        path = f"{tmp_path}/a"
        steps = [{"steps": [1, 2], "words": ["a", "b"]}, {"steps": [3], "words": ["b"]}]
        writing.write_sequence_examples(
            path, [({"click": i % 2, "x": i / 7}, steps[i % 2]) for i in range(300)]
        )  # fmt: skip
        files = [path]
    else:
        files = files_of(tmp_path, kind)
    parts = [scan.scan([path], exact_limit=limit, workers=1) for path in files]
    copies = [summary.from_bytes(summary.to_bytes(part)) for part in parts]
    for part, copy in zip(parts, copies):
        assert copy.statistics(1) == part.statistics(1)
        assert copy.step_groups() == part.step_groups()
    for others in (parts, copies):
        for other in others[1:]:
            others[0].merge(other)
    assert copies[0].statistics(3).as_text() == parts[0].statistics(3).as_text()
    assert [*copies[0].features] == [*parts[0].features]
