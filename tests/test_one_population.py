"""Whatever measures rows for training counts the rows that training reads.

The callers of everything that reads records or tables are found in the code. Those that measure
rows for training are run with a filter, and must count as many rows as an epoch of training reads.
The table says of all others why they may read every row.
"""

from __future__ import annotations

import ast
import re

import pyarrow.parquet
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.commands import validated_data as data
from estimator_kit.config.modes import command_of
from estimator_kit.retraining.facts import Facts
from estimator_kit.scoring.references import rows
from estimator_kit.training import records
from feature_specs import statistics
from input_pipelines import input_fns
from input_pipelines.data_service import WorkerInput
from input_pipelines.integrity import label_order, spec_check
from input_pipelines.prepare.analyze import refresh, scan
from input_pipelines.reading.selection import Selection
from input_pipelines.reading.shuffling import Span
from input_pipelines.reading.sources import Files
from input_pipelines.record_files import writing
from input_pipelines.row_cache.cache import Cached, RowCache
from tests.test_digests import with_functions
from tests.test_layering import MODULES, module_of, tree_of

SPEC = """
features:
  country: {dtype: string, default: ""}
  age: {dtype: int64}
columns:
  country: {vocabulary: country, file: words.txt}
  age: {numeric: age}
groups: {wide: [country, age]}
labels: {click: {dtype: int64}}
objectives: {click: {head: binary}}
filter: [{feature: country, in: [de, fr]}, {feature: age, min: 12}]
"""
ROWS = [
    {"country": ["de", "fr", "it", None][i % 4], "age": 10 + i % 7, "click": int(i % 3 == 0)}
    for i in range(60)
]
COUNTED = [row for row in ROWS if row["country"] in ("de", "fr") and row["age"] >= 12]


@pytest.fixture
def made(tmp_path):
    """(spec, three files, the folder)"""
    (tmp_path / "words.txt").write_text("it\nde\n")
    (tmp_path / "spec.yaml").write_text(SPEC)
    files = [str(tmp_path / f"{i}.tfrecord") for i in range(3)]
    for i, path in enumerate(files):
        writing.write_examples(path, ROWS[i::3])
    return feature_specs.load(tmp_path / "spec.yaml"), files, tmp_path


def rows_in(batches):
    return sum(len(labels["click"]) for _, labels in batches)


def test_an_epoch_of_training_reads_the_rows_that_the_filter_keeps(made):
    spec, files, _ = made
    assert 10 < len(COUNTED) < 30
    assert rows_in(input_fns.train_input_fn(spec, files, batch_size=7, epochs=1)()) == len(COUNTED)
    assert rows_in(input_fns.eval_input_fn(spec, files, batch_size=7)()) == len(COUNTED)


# --- What the readers count ----------------------------------------------------------------------


def of_references(spec, files, _):
    """The rows that the reference models learn from."""
    found = rows.sampled(spec, files, most=10_000)
    yield len(found.records)
    yield found.of


def in_blocks(blocks):
    return sum(len(block) for block in blocks)


def selected(spec, files, _):
    as_they_are = lambda blocks: blocks  # noqa: E731
    yield Selection(spec).count(files).kept[0]
    yield in_blocks(Selection(spec).blocks(files))
    yield in_blocks(Selection(spec).blocks(files, cut_into_runs=as_they_are))


def listed(spec, files, _):
    yield sum(map(len, Selection(spec).lists(files, 7)))
    with tf.Graph().as_default():
        yield sum(map(len, Selection(spec).lists(files, 7)))


def cached(spec, files, folder):
    with RowCache(f"{folder}/cache", limit=2**30) as cache:
        yield sum(len(block[0]) for block in cache.rows(spec).blocks(files, interleaved=False))
    yield cache.counts.rows


def restarted(spec, files, folder):
    with RowCache(f"{folder}/cache", limit=2**30) as cache:
        for source in (Files(spec, files), Cached.of(Files(spec, files), cache)):
            span = Span(5, 1, [len(COUNTED)])
            yield 5 + rows_in(input_fns.training_batches(source, batch_size=7, span=span)())


def of_a_data_service(spec, files, _):
    blocks = WorkerInput(Files(spec, files), batch_size=7)._blocks(
        tf.data.Dataset.range(len(files))
    )
    yield in_blocks(blocks)


def of_facts(spec, files, folder):
    """Days, `window_min` and `period_rows` count by these, and so do label rates and drift."""
    facts = Facts(f"{folder}/facts", spec)
    found = facts.of_files(files)
    yield sum(file.rows - file.dropped for file in found)
    yield facts.statistics(found).rows
    yield facts.summary(found).rows


def scanned(spec, files, _):
    yield scan.scan(files, conditions=spec.conditions).rows
    yield scan.scan(files, conditions=spec.conditions, group_bytes=1, workers=1).rows


def scanned_table(spec, _, folder):
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), f"{folder}/rows.parquet")
    yield scan.scan([f"{folder}/rows.parquet"], conditions=spec.conditions).rows


def refreshed(_, files, folder):
    assert f"{len(COUNTED)} of 60 records of 3 files" in refresh.refresh(
        f"{folder}/spec.yaml", files, min_count=1
    )
    kept = statistics.load(folder / "statistics.json")
    yield kept.rows
    yield kept.features["country"].values
    counts = (folder / "words.counts.tsv").read_text().splitlines()
    yield sum(int(line.split("\t")[1]) for line in counts if line[:2] in ("de", "fr"))


def validated(spec, files, folder):
    config = ek.ExperimentConfig(
        mode="validate", spec=f"{folder}/spec.yaml", train_files=files, baseline=files
    )
    first = data.drift_report(command_of(config)).splitlines()[0]
    both = f"{len(COUNTED)} of 60 records"
    assert first == f"drift of {both} against {both} of the baseline"
    yield data._summary(spec, files, scan.CsvOptions()).rows


def compared(spec, files, _):
    lines = spec_check.check(spec, files, rows=60).lines
    assert lines[1] == f"  {60 - len(COUNTED)} more records dropped by the filter"
    yield int(lines[0].split()[0])


def ordered(spec, files, _):
    starts = [start for path in files for start in label_order._block_starts(path, {})]
    yield sum(len(label_order._counted(spec, start)) for start in starts)
    first = records.check_records(spec, files, "--train_files")
    yield sum(len(label_order._counted(spec, some)) for some in first.values())


ALL = "answers every row"
KIND = "looks for the kind of records only"
WHOLE = "converts every row, and checks those that count with `value_checks`"
READERS = {
    "estimator_kit.commands.export:_export": KIND,
    "estimator_kit.commands.predict:_predict": KIND,
    "estimator_kit.commands.transform:_records": ALL,
    "estimator_kit.commands.validated_data:_summary": validated,
    "estimator_kit.commands.validated_data:data_report": "`row_groups` selects among them",
    "estimator_kit.exporters.sample_rows:_lists": "is asked for all rows, or has no filter",
    "estimator_kit.retraining.period_summaries:of": of_facts,
    "estimator_kit.scoring.eval_rows:__init__": "is given blocks of Selection",
    "estimator_kit.scoring.export:batches": "is asked for all rows",
    "estimator_kit.scoring.kept:first_records": KIND,
    "estimator_kit.scoring.references.rows:read": of_references,
    "estimator_kit.scoring.kept:of_files": ALL,
    "estimator_kit.scoring.rows:of_table": ALL,
    "estimator_kit.scoring.rows:of_tfrecords": ALL,
    "estimator_kit.monitoring.late_labels:read": "reads labels, by key",
    "estimator_kit.scoring.request_logs:_records": "reads requests",
    "estimator_kit.serving.answers:_replay": "reads requests",
    "estimator_kit.training.records:check_records": ordered,
    "input_pipelines.data_service:of_file": of_a_data_service,
    "input_pipelines.input_fns:input_fn": ALL,
    "input_pipelines.integrity.file_check:_quickly": of_facts,
    "input_pipelines.integrity.file_check:_thoroughly": "reads damaged files, which do not count",
    "input_pipelines.integrity.label_order:_block_starts": ordered,
    "input_pipelines.integrity.spec_check:_blocks": compared,
    "input_pipelines.prepare.analyze.first_spec:write": "makes the spec, which has no filter yet",
    "input_pipelines.prepare.analyze.scan:_chunks": scanned,
    "input_pipelines.prepare.analyze.scan:scan_parts": scanned_table,
    "input_pipelines.prepare.analyze.refresh:refresh": refreshed,
    "input_pipelines.prepare.convert.derived_labels:read": WHOLE,
    "input_pipelines.prepare.convert.histories_and_windows:read": WHOLE,
    "input_pipelines.prepare.convert.plan:_bytes_a_row": WHOLE,
    "input_pipelines.prepare.convert.split:resolved": WHOLE,
    "input_pipelines.prepare.convert.tasks:_read": WHOLE,
    "input_pipelines.reading.selection:_numbered": selected,
    "input_pipelines.reading.selection:blocks": selected,
    "input_pipelines.reading.selection:count": selected,
    "input_pipelines.reading.selection:lists": listed,
    "input_pipelines.reading.sources:read": restarted,
    "input_pipelines.row_cache.rows:dataset": cached,
    "input_pipelines.row_cache.rows:part": cached,
    "input_pipelines.row_cache.rows:read": restarted,
    "input_pipelines.row_cache.rows:stored_blocks": cached,
}

# By the name of the module, what reads records or rows, or summarizes them.
READING = {
    "tfrecords": {
        "blocks", "numbered_blocks", "count_records", "good_records",
        "whole_file", "each_file", "records_at",
    },
    "record_lists": {"of_files", "first_records"},
    "data": {"TFRecordDataset"},
    "io": {"tf_record_iterator"},
    "record_scanner": {"scan"},
    "reader": {"read", "read_beside"},
    "derived_labels": {"read"},
    "scan": {"scan"},
}  # fmt: skip
NAMES_READING = re.compile(rf"\b({'|'.join(set().union(*READING.values()))})\(")


def reads(node):
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    if isinstance(function, ast.Name):
        return function.id == "scan"
    if not isinstance(function, ast.Attribute) or not isinstance(
        function.value, (ast.Name, ast.Attribute)
    ):
        return False
    owner = getattr(function.value, "id", None) or function.value.attr
    return function.attr in READING.get(owner, ())


def test_the_table_has_every_reader_of_records():
    found = {
        f"{module_of(path)}:{name}"
        for path in MODULES
        if "record_files" not in path.parts
        and NAMES_READING.search(path.read_text(encoding="utf-8"))
        for name, node in with_functions(tree_of(path))
        if reads(node)
    }
    assert found == {*READERS}


@pytest.mark.parametrize(
    "measure", [m for m in dict.fromkeys(READERS.values()) if callable(m)], ids=lambda m: m.__name__
)
def test_a_reader_counts_what_training_reads(made, measure):
    counts = list(measure(*made))
    assert counts == [len(COUNTED)] * len(counts) != []
