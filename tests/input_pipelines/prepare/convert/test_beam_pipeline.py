"""A conversion with Beam writes the same bytes as one on this machine."""

from __future__ import annotations

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import feature_specs
from feature_specs.files import file_systems
from input_pipelines.errors import DataError
from input_pipelines.prepare.convert import conversion, plan, processes, tasks
from input_pipelines.prepare.convert.conversion import convert
from input_pipelines.prepare.convert.options import ConvertOptions, DerivedLabel
from input_pipelines.prepare.tables.options import CsvOptions
from tests.beam import FLAGS, needs_beam
from tests.input_pipelines.prepare.convert.test_conversion import (
    LEARNED,
    LEARNED_ROW,
    SPLIT,
    content,
    make_rows,
    shards,
    spec_file,
    write,
)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Makes a MiB 10,000 bytes, so that shards have some hundred rows."""
    monkeypatch.setattr(plan, "_MIB", 10_000)


def files_of(folder, kind):
    return [write(folder / f"{i}.{kind}", make_rows(700, seed=i)) for i in range(3)]


def test_options_of_all_kinds_reach_a_worker():
    labels = tuple(map(DerivedLabel.parse, ("a=b:above:1.5", "c=d:in:x|y")))
    options = ConvertOptions(
        split_time="t", eval_from="2026-01-01", eval_fraction=0.25, derived_labels=labels
    )
    context = tasks.Context("a", "b", (), options, "", {"train": (0, 1)}, (), 0)
    assert processes._context(processes._dumped(context)) == context


@needs_beam
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("order", ["stable", "shuffled"])
@pytest.mark.parametrize("split", [{}, SPLIT, {**SPLIT, "test_fraction": 0.2}])
def test_the_same_bytes(tmp_path, kind, order, split):
    files = files_of(tmp_path, kind)
    options = ConvertOptions(shard_mib=2, order=order, seed=5, **split)
    here = convert(files, directory=f"{tmp_path}/here", options=options, workers=1)
    there = convert(files, directory=f"{tmp_path}/there", options=options, beam=FLAGS)
    assert len(here.shards) > 2
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert there.text() == here.text().replace("/here", "/there")


@needs_beam
def test_sequence_examples_compressed_and_rounded(tmp_path):
    rows = [{"n": i, "steps": [i] * (i % 3), "price": 2**24 + i + 0.5} for i in range(400)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=100)
    options = ConvertOptions(compression="gzip", step_columns=("steps",))
    arguments = {"files": [f"{tmp_path}/a.parquet"], "options": options}
    here = convert(**arguments, directory=f"{tmp_path}/here")
    there = convert(**arguments, directory=f"{tmp_path}/there", beam=FLAGS)
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert there.notes == here.notes and "400 values with more than" in there.notes[0]


def test_tasks_are_the_same_on_a_worker(tmp_path):
    path = write(tmp_path / "a.csv", make_rows(50))
    csv = CsvOptions(missing=("?",))
    seen = []
    for order in ("stable", "shuffled"):
        made, _ = conversion._planned([path], ConvertOptions(order=order), None, csv)
        context = tasks.context_of(made, made.shards, "out", "out/_unfinished")
        dumped = processes._dumped(context)
        assert processes._CONTEXT.validate_json(dumped) == context
        for stage in tasks.of_plan(made, made.shards, context):
            for task in stage:
                kind, _, piece = processes._piece(task).partition(b" ")
                assert processes._TASKS[kind.decode()].validate_json(piece) == task
                seen.append(kind)
    assert seen == [b"WriteTask", b"SpillTask", b"MergeTask"]


@needs_beam
@pytest.mark.parametrize("order", ["stable", "shuffled"])
def test_started_again_after_a_loss(tmp_path, order):
    files = files_of(tmp_path, "parquet")
    options = ConvertOptions(shard_mib=2, order=order)
    arguments = {"directory": f"{tmp_path}/out", "options": options}
    convert(files, **arguments, workers=1)
    before = content(tmp_path / "out")
    kept, lost = shards(tmp_path / "out")[:2]
    stamp = os.stat(kept).st_mtime_ns
    lost.unlink()
    result = convert(files, **arguments, beam=FLAGS)
    assert (result.new, result.already_done) == (1, False)
    assert content(tmp_path / "out") == before and os.stat(kept).st_mtime_ns == stamp
    assert convert(files, **arguments, beam=FLAGS).already_done


@needs_beam
def test_a_bad_row_and_then_a_corrected_one(tmp_path):
    spec = feature_specs.load(spec_file(tmp_path))
    rows = make_rows(300)
    path = write(tmp_path / "a.csv", [*rows, {"row": 300, "user": None, "price": 1.5}])
    errors = []
    for out, options in (("here", {"workers": 1}), ("there", {"beam": FLAGS})):
        with pytest.raises(DataError) as error:
            convert([path], directory=f"{tmp_path}/{out}", spec=spec, **options)
        errors.append(str(error.value))
        assert not (tmp_path / out / "_SUCCESS").exists()
    assert errors[0] == errors[1]
    assert errors[0].startswith(f"{path}: line 302: column 'user' has no value, which is required")
    write(path, rows)
    convert([path], directory=f"{tmp_path}/there", spec=spec, beam=FLAGS)
    convert([path], directory=f"{tmp_path}/fresh", spec=spec)
    assert content(tmp_path / "there") == content(tmp_path / "fresh")


@pytest.mark.parametrize("order", ["stable", "shuffled"])
def test_two_workers_at_the_same_task(tmp_path, order):
    """A runner may take a worker for lost; then two workers do the task at the same time."""
    files = files_of(tmp_path, "csv")
    options = ConvertOptions(order=order)
    convert(files, directory=f"{tmp_path}/here", options=options)
    made, _ = conversion._planned(files, options, None, CsvOptions())
    folder, temporary = f"{tmp_path}/out", f"{tmp_path}/out/_unfinished"
    os.makedirs(temporary)
    context = tasks.context_of(made, made.shards, folder, temporary)
    common = processes._CONTEXT.dump_json(context)
    for stage in tasks.of_plan(made, made.shards, context):
        for task in stage:
            piece = processes._piece(task)
            results = []

            def another(rows, piece=piece, results=results):
                if not results:
                    results.append(processes._work(common, piece))

            mine = tasks.perform(task, context, another)
            assert mine.shards == tasks.Done.of_text(results[0], "").shards
    for shard in shards(tmp_path / "here"):
        assert (tmp_path / "out" / shard.name).read_bytes() == shard.read_bytes()
    assert not [name for name in os.listdir(temporary) if name.startswith(".tmp-")]


@needs_beam
@pytest.mark.parametrize("order", ["stable", "shuffled"])
def test_another_file_system(tmp_path, order):
    """Like gs://: TensorFlow reads and writes the files."""
    files = files_of(tmp_path, "csv")
    options = ConvertOptions(order=order)
    convert(files, directory=f"{tmp_path}/here", options=options)
    folder = f"ram://{tmp_path}/there"
    convert(files, directory=folder, options=options, beam=FLAGS)
    here = content(tmp_path / "here")
    assert {
        name: file_systems.read(f"{folder}/{name}") for name in file_systems.names_in(folder)
    } == here


def test_what_a_spec_demands_is_the_same_on_a_worker(tmp_path):
    path = write(tmp_path / "a.parquet", [LEARNED_ROW])
    made, _ = conversion._planned(
        [path], ConvertOptions(), feature_specs.parse(LEARNED), CsvOptions()
    )
    context = tasks.context_of(made, made.shards, "out", "out/_unfinished")
    assert len(context.filters) == 2
    dumped = processes._dumped(context)
    assert processes._CONTEXT.validate_json(dumped) == context
