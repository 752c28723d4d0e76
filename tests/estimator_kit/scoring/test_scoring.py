"""--mode=predict --export_dir: an export predicts the same as the Estimator, for many files."""

from __future__ import annotations

import dataclasses
import gzip
import json
import pathlib
import shutil
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.config import code_digests
from estimator_kit.config.modes import command_of
from estimator_kit.errors import ExportError, NothingToDo
from estimator_kit.exporters import saved_model
from estimator_kit.scoring import export as exports
from estimator_kit.scoring import outputs, plan, prediction, scoring, work
from estimator_kit.scoring.rows import Batch
from estimator_kit.serving.loaded_model import LoadedModel
from feature_specs.files import file_systems
from feature_specs.files.shards import ShardFile
from input_pipelines import input_fns
from input_pipelines.prepare.tables import json_files
from input_pipelines.prepare.tables.formats import parquet
from input_pipelines.prepare.tables.options import CsvOptions
from input_pipelines.prepare.tables.table_format import Part
from input_pipelines.record_files import kinds, writing
from tests.conftest import DOCUMENT, ROOT, make_rows, place
from tests.estimator_kit.serving.small_models import write_version
from tests.estimator_kit.small_training import trained_wide_deep

KINDS = ("tfrecord", "tfrecord.gz", "csv", "csv.gz", "tsv", "jsonl", "parquet")
SIZES = (37, 1, 20)


@dataclasses.dataclass(frozen=True)
class Made:
    """An Estimator, its spec and its export."""

    estimator: object
    spec: feature_specs.FeatureSpec
    export: str

    def predictions(self, paths):
        """{output: [rows, ...]} of the Estimator for TFRecord files, in their order."""
        input_fn = input_fns.predict_input_fn(self.spec, paths, batch_size=7)
        batches = list(prediction.from_estimator(self.estimator, input_fn))
        return {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    estimator, spec = trained_wide_deep(folder, DOCUMENT, make_rows(40), steps=2)
    path = saved_model.export_saved_model(estimator, spec, f"{folder}/export")
    return Made(estimator, spec, path)


def rows_to_predict(count, seed):
    """Rows without labels, and with at most one tag because of CSV; `code` is unusual text."""
    rows = make_rows(count, seed=seed)
    for i, row in enumerate(rows):
        del row["click"], row["buy"]
        row["tags"] = row["tags"][:1]
        row["code"] = ["007", 'a "b", c', "", None, "ä\nb"][i % 5]
    return rows


def write(path, rows):
    """Writes rows to a file of the kind that its name says."""
    name = str(path)
    if "tfrecord" in name:
        writing.write_examples(name, rows)
    elif name.endswith("parquet"):
        fields = {"tags": pa.list_(pa.string()), "user": pa.string(), "code": pa.string(),
                  "city": pa.string(), "price": pa.float64(), "row": pa.int32()}  # fmt: skip
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(list(fields.items()))), name)
    elif name.endswith("jsonl"):
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        pathlib.Path(name).write_text(text, encoding="utf-8")
    else:
        separator = "\t" if "tsv" in name else ","
        lines = [separator.join(rows[0])]
        for row in rows:
            cells = {**row, "tags": (row["tags"] or [None])[0]}
            quoted = {n: '"' + v.replace('"', '""') + '"' for n, v in cells.items()
                      if isinstance(v, str)}  # fmt: skip
            cells = {n: "" if v is None else str(v) for n, v in cells.items()}
            lines.append(separator.join({**cells, **quoted}.values()))
        data = ("\n".join(lines) + "\n").encode()
        pathlib.Path(name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)


def written(path, outputs):
    """The rows of an output file as dicts. Columns of CSV become the list of their output."""
    name = str(path)
    if "tfrecord" in name:
        rows = []
        compression = "GZIP" if name.endswith("gz") else ""
        for record in tf.data.TFRecordDataset(name, compression).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            row = {}
            for key, feature in features.items():
                values = getattr(feature, feature.WhichOneof("kind")).value
                values = [v.decode() if isinstance(v, bytes) else v for v in values]
                row[key] = values if key in outputs else values[0]
            rows.append(row)
        return rows
    if name.endswith("parquet"):
        return pq.read_table(name).to_pylist()
    if name.endswith("jsonl"):
        return [json.loads(line) for line in pathlib.Path(name).read_text("utf-8").splitlines()]
    options = pc.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False,
        column_types={n: pa.string() for n in ("code", "click/classes", "buy/classes")},
    )  # fmt: skip
    parse = pc.ParseOptions(delimiter="\t" if "tsv" in name else ",", newlines_in_values=True)
    rows = pc.read_csv(name, parse_options=parse, convert_options=options).to_pylist()
    for row in rows:
        for output in outputs:
            parts = [key for key in row if key.startswith(f"{output}/")]
            if parts:
                row[output] = [row.pop(part) for part in parts]
    return rows


def config(made, files, folder, **changes):
    given = {
        "mode": "predict", "export_dir": made.export, "predict_files": (str(files),),
        "predict_dir": str(folder), "eval_batch_size": 16, "processes": 1,
    }  # fmt: skip
    return ek.ExperimentConfig(**{**given, **changes})


def predict(*arguments, **changes):
    return scoring.run(command_of(config(*arguments, **changes)))


def same(found, expected):
    """Compares the rows of an output file with the Estimator's predictions."""
    for name, values in expected.items():
        of_rows = [np.asarray(row[name]).reshape(-1) for row in found]
        if values.dtype == np.object_:
            assert [list(v) for v in of_rows] == [[w.decode() for w in v] for v in values], name
        else:
            np.testing.assert_allclose(
                np.array(of_rows, np.float64), values.reshape(len(values), -1).astype(np.float64),
                rtol=1e-6, atol=1e-6, err_msg=name,
            )  # fmt: skip


@pytest.fixture(scope="module")
def expected_of_parts(made, tmp_path_factory):
    """The rows of three files, with the Estimator's predictions."""
    folder = tmp_path_factory.mktemp("expected")
    parts = [rows_to_predict(size, i) for i, size in enumerate(SIZES)]
    for i, rows in enumerate(parts):
        writing.write_examples(f"{folder}/{i}", rows)
    together = made.predictions([f"{folder}/{i}" for i in range(len(parts))])
    ends = np.cumsum(SIZES)[:-1]
    split = {name: np.split(values, ends) for name, values in together.items()}
    return [(rows, {n: v[i] for n, v in split.items()}) for i, rows in enumerate(parts)]


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_are_those_of_the_estimator(made, expected_of_parts, tmp_path, kind):
    for i, (rows, _) in enumerate(expected_of_parts):
        write(tmp_path / f"part-{i}.{kind}", rows)
    keep = ("row", "code")
    files, out = tmp_path / f"part-*.{kind}", tmp_path / "out"
    result, text = predict(made, files, out, keep_columns=keep)
    assert result.rows_evaluated == sum(SIZES)
    assert text.startswith(f"{out}: predicted 58 rows of 3 ")
    assert sorted(path.name for path in out.iterdir()) == [
        "_MANIFEST.json", "_PLAN.json", "_SUCCESS", *(f"part-{i}.{kind}" for i in range(3)),
    ]  # fmt: skip
    manifest = plan.ManifestDocument.load(f"{out}/_MANIFEST.json")
    assert [shard.rows for shard in manifest.shards] == list(SIZES)
    assert (manifest.rows, manifest.signature) == (58, "predict_examples")
    for i, (rows, expected) in enumerate(expected_of_parts):
        assert len(expected) == 10
        found = written(out / f"part-{i}.{kind}", expected)
        assert [set(row) <= {*keep, *expected} for row in found] == [True] * len(rows)
        for name in keep:
            assert [row.get(name) for row in found] == [row[name] for row in rows], name
        same(found, expected)


def test_parquet_keeps_the_types_of_columns_and_what_no_feature_can_hold(made, tmp_path):
    rows = rows_to_predict(5, 0)
    table = pa.Table.from_pylist(rows)
    extra = pa.array([{"a": i} for i in range(5)])
    table = table.append_column("who", table["user"].dictionary_encode())
    table = table.append_column("more", extra)
    pq.write_table(table, tmp_path / "a.parquet")
    predict(made, tmp_path / "a.parquet", tmp_path / "out", keep_columns=("more", "who", "price"))
    found = pq.read_table(tmp_path / "out" / "a.parquet")
    assert found.schema.names[:3] == ["more", "who", "price"]
    for name in ("more", "who", "price"):
        assert found[name].type == table[name].type and found[name].equals(table[name])
    assert found["click/logits"].type == pa.float32()
    assert found["click/probabilities"].type == pa.list_(pa.float32())
    assert found["click/class_ids"].type == pa.int64()


def test_json_lines_keep_the_text_of_the_file(made, tmp_path, monkeypatch):
    """Whatever stands next to a value, and wherever a block of lines ends."""
    kept = [
        '"id": 9007199254740993, "o": {"b": 1.50, "a": null}', '"id": 9007199254740992',
        '"id": 0.5', '"o": {"c": [1, 2]}, "id": null', "",
    ]  # fmt: skip
    texts = [kept[0], kept[1], kept[2], '"id": null, "o": {"c": [1, 2]}', ""]
    path = tmp_path / "a.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for row, text in zip(rows_to_predict(len(kept), 0), kept):
            file.write(json.dumps(row)[:-1] + (f", {text}" if text else "") + "}\n")
    found = []
    for block in (1, 4 * 2**20):
        monkeypatch.setattr(json_files, "_BLOCK", block)
        predict(made, path, tmp_path / str(block), keep_columns=("id", "o"),
                predict_outputs=("click/logits",))  # fmt: skip
        found.append((tmp_path / str(block) / "a.jsonl").read_text(encoding="utf-8").splitlines())
    for lines in found:
        starts = [line.partition('"click/logits": ')[0].rstrip(", ") for line in lines]
        assert starts == ["{" + text for text in texts]
    answers = [[json.loads(line)["click/logits"] for line in lines] for lines in found]
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-6)  # The batches differ.


def test_wide_rows_of_parquet_are_written_before_they_fill_the_memory(made, tmp_path, monkeypatch):
    write(tmp_path / "a.parquet", rows_to_predict(64, 0))
    predict(made, tmp_path / "a.parquet", tmp_path / "narrow", keep_columns=())
    monkeypatch.setattr(parquet, "_GROUP_BYTES", 100)
    predict(made, tmp_path / "a.parquet", tmp_path / "wide", keep_columns=())
    narrow, wide = (pq.ParquetFile(tmp_path / n / "a.parquet") for n in ("narrow", "wide"))
    assert (narrow.num_row_groups, wide.num_row_groups) == (1, 4)  # Batches of 16 rows.
    assert wide.read().equals(narrow.read())


def csv_logits(path, delimiter=","):
    header, *lines = path.read_text().splitlines()
    at = [name.strip('"') for name in header.split(delimiter)].index("click/logits")
    return [float(line.split(delimiter)[at]) for line in lines]


def with_tables(made, folder, tables):
    """A copy of the export whose spec says how to read tables."""
    export = shutil.copytree(made.export, f"{folder}/1")
    kept = pathlib.Path(export, "assets.extra", "feature_spec", "spec.json")
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "tables": tables}))
    return dataclasses.replace(made, export=export)


def test_csv_as_its_options_say(made, tmp_path):
    (tmp_path / "a.csv").write_text("# note\n 1; rome;7.50;?\n 2; oslo;1;ann\n")
    options = {"csv_columns": ("row", "city", "price", "user"), "csv_delimiter": ";",
               "csv_comment": "#", "csv_missing": ("?",), "csv_skip_spaces": True}  # fmt: skip
    _, text = predict(made, tmp_path / "a.csv", tmp_path / "out", **options,
                      keep_columns=("price", "user", "city"))  # fmt: skip
    assert "\n  note: tags: the table has no such column, so no record has it" in text
    header, *lines = (tmp_path / "out" / "a.csv").read_text().splitlines()
    names = [name.strip('"') for name in header.split(";")]
    assert names[:3] == ["price", "user", "city"]
    assert names[-2:] == ["click/probabilities/0", "click/probabilities/1"]
    assert [line.split(";")[:3] for line in lines] == [
        ['"7.50"', "", '"rome"'], ['"1"', '"ann"', '"oslo"'],
    ]  # fmt: skip
    rows = [{"city": "rome", "price": 7.5}, {"city": "oslo", "price": 1.0, "user": "ann"}]
    writing.write_examples(f"{tmp_path}/expected", rows)
    expected = made.predictions([f"{tmp_path}/expected"])["click/logits"]
    found = csv_logits(tmp_path / "out" / "a.csv", ";")
    np.testing.assert_allclose(found, expected[:, 0], rtol=1e-6, atol=1e-6)


def test_csv_as_the_export_says(made, tmp_path):
    """The spec that an export keeps decides which text is a missing value or a list."""
    tables = {"csv_missing": ["?"], "csv_list_separator": "|"}
    changed = with_tables(made, tmp_path / "export", tables)
    (tmp_path / "a.csv").write_text(
        "row,city,price,user,tags\n1,rome,7.5,?,a|b|c\n2,oslo,?,ann,b\n"
    )
    predict(changed, tmp_path / "a.csv", tmp_path / "out", keep_columns=("tags",))
    rows = [
        {"city": "rome", "price": 7.5, "tags": ["a", "b", "c"]},
        {"city": "oslo", "user": "ann", "tags": ["b"]},
    ]
    writing.write_examples(f"{tmp_path}/expected", rows)
    expected = made.predictions([f"{tmp_path}/expected"])["click/logits"][:, 0]
    _, *lines = (tmp_path / "out" / "a.csv").read_text().splitlines()
    found = csv_logits(tmp_path / "out" / "a.csv")
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert [line.split(",")[0] for line in lines] == ['"a|b|c"', '"b"']
    with pytest.raises(ek.ConfigError, match=r"^--csv_missing: expected .* Remove the flag"):
        predict(changed, tmp_path / "a.csv", tmp_path / "other", csv_missing=("NA",))


def test_spaces_count_as_the_spec_of_the_export_says(made, tmp_path):
    """' oslo' of one row is the same word as in many rows."""
    (tmp_path / "one.csv").write_text("row,city,price\n1, oslo,1\n")
    (tmp_path / "two.csv").write_text("row,city,price\n1, oslo,1\n2,rome,2\n")

    def first_logit(model, name, out, **flags):
        predict(model, tmp_path / f"{name}.csv", tmp_path / out, **flags)
        return csv_logits(tmp_path / out / f"{name}.csv")[0]

    writing.write_examples(
        f"{tmp_path}/expected", [{"city": word, "price": 1.0} for word in (" oslo", "oslo")]
    )
    kept_space, no_space = made.predictions([f"{tmp_path}/expected"])["click/logits"][:, 0]
    assert abs(kept_space - no_space) > 1e-4
    with pytest.raises(ek.DataError, match="'city' begins with a space, and the spec does not say"):
        first_logit(made, "one", "silent")
    assert first_logit(made, "one", "flag", csv_skip_spaces=True) == pytest.approx(no_space, 1e-5)
    for skip, expected in ((False, kept_space), (True, no_space)):
        changed = with_tables(made, tmp_path / str(skip), CsvOptions(skip_spaces=skip).flags)
        for name in ("one", "two"):
            assert first_logit(changed, name, f"{name}_{skip}") == pytest.approx(expected, 1e-5)


KILLED = """
import os, signal, sys
from feature_specs.files import staged

rename = staged.rename

def killed(old, new, **options):
    if os.path.basename(new) == "part-1.parquet":
        os.kill(os.getpid(), signal.SIGKILL)
    rename(old, new, **options)

staged.rename = killed
from estimator_kit.main import main

if __name__ == "__main__":
    sys.exit(main())
"""


def start(made, folder, program, processes):
    """Predicts the files of a folder in another process, which `killed.py` ends early."""
    (folder / "killed.py").write_text(KILLED)
    return subprocess.run(
        [sys.executable, program, "--mode=predict", f"--export_dir={made.export}",
         "--predict_files=part-*.parquet", "--predict_dir=out", "--eval_batch_size=16",
         f"--processes={processes}"],
        cwd=folder, capture_output=True, text=True, timeout=240, check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip


@pytest.mark.ci
def test_processes_continue_after_a_kill(made, tmp_path):
    for i, size in enumerate(SIZES):
        write(tmp_path / f"part-{i}.parquet", rows_to_predict(size, i))
    files = tmp_path / "part-*.parquet"
    predict(made, files, tmp_path / "whole")
    out = tmp_path / "out"
    assert start(made, tmp_path, "killed.py", processes=1).returncode == -signal.SIGKILL
    assert sorted(path.name for path in out.iterdir()) == [
        "_PLAN.json", "_unfinished", "part-0.parquet",
    ]  # fmt: skip
    first = (out / "part-0.parquet").stat()
    done = start(made, tmp_path, ROOT / "run.py", processes=2)
    assert done.returncode == 0, done.stderr
    assert "\n  1 files were already complete\n" in done.stdout
    assert "deprecated" not in done.stderr and "Traceback" not in done.stderr
    again = (out / "part-0.parquet").stat()
    assert (first.st_ino, first.st_mtime_ns) == (again.st_ino, again.st_mtime_ns)
    for i in range(3):
        name = f"part-{i}.parquet"
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert sorted(path.name for path in out.iterdir() if path.name[0] == "_") == [
        "_MANIFEST.json", "_PLAN.json", "_SUCCESS",
    ]  # fmt: skip
    whole = tmp_path / "whole"
    with pytest.raises(NothingToDo) as error:
        predict(made, files, whole)
    assert str(error.value) == (
        f"--predict_dir: {str(whole)!r} already has the predictions of all 3 files. Nothing was "
        "changed."
    )
    # An incomplete file is written again.
    (whole / "part-2.parquet").write_bytes(b"")
    _, text = predict(made, files, whole)
    assert "  2 files were already complete" in text
    assert (whole / "part-2.parquet").read_bytes() == (out / "part-2.parquet").read_bytes()


@pytest.mark.ci
def test_a_process_that_is_killed(made, tmp_path):
    for i in range(2):
        write(tmp_path / f"part-{i}.parquet", rows_to_predict(3, i))
    done = start(made, tmp_path, "killed.py", processes=2)
    assert done.returncode == 75
    assert done.stderr.endswith(
        "error: another program killed a process of the prediction, as the system does when memory "
        "runs out. The finished files are kept. Run the same command again with a smaller "
        "--processes or --eval_batch_size.\n"
    )
    assert not (tmp_path / "out" / "_SUCCESS").exists()


def refused(made, *arguments, kind=ek.ConfigError, **changes):
    with pytest.raises(kind) as error:
        predict(made, *arguments, **changes)
    return str(error.value)


def test_a_folder_that_another_version_of_the_kit_began(made, tmp_path, monkeypatch):
    for name in "ab":
        write(tmp_path / f"{name}.tfrecord", rows_to_predict(3, 0))
    files, out = tmp_path / "*.tfrecord", tmp_path / "out"
    predict(made, files, out)
    monkeypatch.setattr(code_digests, "of_kit", lambda: "another version")
    with pytest.raises(NothingToDo):  # What is finished stays valid.
        predict(made, files, out)
    (out / "_SUCCESS").unlink()
    (out / "b.tfrecord").unlink()
    assert refused(made, files, out) == (
        f"--predict_dir: another version of estimator_kit began the prediction in {str(out)!r}, so "
        "its files and new ones may not go together; name an empty folder, or remove this one"
    )
    assert not (out / "b.tfrecord").exists()


def test_a_folder_that_holds_something_else(made, tmp_path):
    write(tmp_path / "a.tfrecord", rows_to_predict(3, 0))
    write(tmp_path / "b.tfrecord", rows_to_predict(3, 1))
    one, both, out = tmp_path / "a.tfrecord", tmp_path / "*.tfrecord", tmp_path / "out"
    assert refused(made, one, tmp_path) == (
        f"--predict_dir: {str(tmp_path)!r} holds 'a.tfrecord' and no _PLAN.json, so no prediction "
        "wrote it; name another folder, or move it away"
    )
    predict(made, one, out)
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    there = f"--predict_dir: {str(out)!r} holds another prediction, which differs in "
    remedy = "; name another folder, or remove this one"
    assert refused(made, one, out, keep_columns=("row",)) == (
        f'{there}the columns that are kept: [] there, ["row"] here{remedy}'
    )
    assert refused(made, both, out).startswith(f"{there}the files that are predicted")
    copied = tmp_path / "copies" / "77"
    shutil.copytree(made.export, copied)
    other = dataclasses.replace(made, export=str(copied))
    version = pathlib.Path(made.export).name
    assert refused(other, one, out) == (
        f'{there}the export (version): "{version}" there, "77" here{remedy}'
    )
    index = copied / "variables" / "variables.index"
    index.write_bytes(index.read_bytes() + b"x")
    assert f"{there}the export (version, digest): " in refused(other, one, out)
    index.write_bytes(index.read_bytes()[:-1])
    kept = copied / "assets.extra" / "feature_spec" / "spec.json"
    kept.write_text(kept.read_text() + "\n")
    assert f"{there}the export (version, digest): " in refused(other, one, out)
    write(tmp_path / "a.tfrecord", rows_to_predict(4, 0))
    changed = refused(made, one, out)
    assert changed == f"{there}the files that are predicted, which have changed since then{remedy}"
    (out / "notes.txt").write_text("")
    assert {p.name: p.stat().st_mtime_ns for p in out.iterdir() if p.name != "notes.txt"} == before


def test_a_manifest_that_is_torn(made, tmp_path):
    write(tmp_path / "a.tfrecord", rows_to_predict(3, 0))
    record, out = tmp_path / "a.tfrecord", tmp_path / "out"
    predict(made, record, out)
    manifest, predicted = (out / "_MANIFEST.json"), (out / "a.tfrecord").read_bytes()
    whole = manifest.read_bytes()
    for torn in (whole[:200], b"", b"[]", b'{"shards": [{"name": "a.tfrecord"}]}', b"\xff"):
        manifest.write_bytes(torn)
        assert refused(made, record, out).startswith(f"{manifest}: ")
    assert (out / "a.tfrecord").read_bytes() == predicted
    manifest.unlink()
    predict(made, record, out)
    assert (manifest.read_bytes(), (out / "a.tfrecord").read_bytes()) == (whole, predicted)


def test_bad_rows_are_named_and_finished_files_stay(made, tmp_path):
    good = rows_to_predict(30, 0)
    for kind in ("tfrecord", "parquet", "csv"):
        for what, change in (("city", None), ("price", float("nan"))):
            folder = tmp_path / f"{what}-{kind}"
            folder.mkdir()
            write(folder / f"a.{kind}", good)
            bad = [dict(row) for row in good]
            bad[20][what] = change
            write(folder / f"b.{kind}", bad)
            text = refused(made, folder / f"*.{kind}", folder / "out", kind=ek.DataError)
            reason = "feature 'price' is nan, expected a finite number"
            where = f"{folder}/b.{kind}: row 21"
            if kind == "csv":  # After the header, 20 rows and the 4 line breaks in them.
                where = f"{folder}/b.csv: line 26"
            if kind == "tfrecord":
                where = f"{folder}/b.{kind}: {place(f'{folder}/b.{kind}', 20)}"
                if what == "city":
                    reason = (
                        "feature 'city' is missing. Use records that fit the spec of the export, "
                        "or leave out the other records with --corrupt_data_policy=skip_record."
                    )
            elif what == "city":
                spec = f"{made.export}/assets.extra/feature_spec/spec.json"
                reason = (f"column 'city' has no value, which is required, as {spec} says; "
                          "correct the row")  # fmt: skip
            assert text == f"{where}: {reason}"
            names = {path.name for path in (folder / "out").iterdir()}
            assert names == {"_PLAN.json", "_unfinished", f"a.{kind}"}


def test_bad_records_that_are_left_out(made, tmp_path):
    rows = rows_to_predict(10, 0)
    rows[4]["city"] = None
    write(tmp_path / "a.tfrecord", rows)
    write(tmp_path / "b.tfrecord", rows[:4])
    result, _ = predict(made, tmp_path / "?.tfrecord", tmp_path / "out", keep_columns=("row",),
                        corrupt_data_policy="skip_record")  # fmt: skip
    found = written(tmp_path / "out" / "a.tfrecord", ())
    assert [row["row"] for row in found] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert result.bad_data["predict_files"]["bad_records"] == 1
    predict(made, tmp_path / "?.tfrecord", tmp_path / "rest", corrupt_data_policy="quarantine")
    assert not (tmp_path / "rest" / "a.tfrecord").exists()
    assert (tmp_path / "rest" / "b.tfrecord").exists()


def test_what_cannot_be_predicted(made, tmp_path):
    rows = rows_to_predict(3, 0)
    out = tmp_path / "out"
    for name in ("a.tfrecord", "a.parquet", "a.csv"):
        write(tmp_path / name, rows)
    record, table = tmp_path / "a.tfrecord", tmp_path / "a.parquet"
    assert refused(made, tmp_path / "a.*", out, kind=ek.DataError) == (
        f"by their names, {tmp_path}/a.csv is CSV and {tmp_path}/a.parquet is Parquet; give files "
        "of one kind"
    )
    hint = ". Did you mean 'code'?"
    assert refused(made, record, out, keep_columns=("cod",)) == (
        f"--keep_columns: the first records of the files have no feature 'cod'{hint}"
    )
    assert refused(made, table, out, keep_columns=("cod",)) == (
        f"--keep_columns: {table} has no column 'cod'{hint}"
    )
    assert refused(made, record, out, keep_columns=("buy/logits",)) == (
        "--keep_columns: 'buy/logits' is also the name of a prediction. Rename the column."
    )
    assert refused(made, record, out, csv_missing=("?",)) == (
        "--csv_columns, --csv_delimiter, --csv_skip_spaces, --csv_comment, --csv_missing and "
        f"--csv_list_separator work only with CSV files, got the TFRecord file {record}. Remove "
        "these flags."
    )
    assert refused(made, table, out, corrupt_data_policy="skip_record") == (
        "--corrupt_data_policy=skip_record works only with TFRecord files, got Parquet files. "
        "Remove the flag."
    )
    pq.write_table(pq.read_table(table).drop_columns("city"), tmp_path / "b.parquet")
    spec = f"{made.export}/assets.extra/feature_spec/spec.json"
    assert refused(made, tmp_path / "b.parquet", out, kind=ek.DataError) == (
        f"{tmp_path}/b.parquet does not fit the spec\ncolumn 'city' is missing, but {spec} "
        "requires it. Use one of: tags, user, price, code, row."
    )
    pq.write_table(pq.read_table(table).slice(0, 0), tmp_path / "c.parquet")
    assert refused(made, tmp_path / "c.parquet", out, kind=ek.DataError) == (
        f"--predict_files: no rows in {tmp_path}/c.parquet. Name files with rows."
    )
    whole = pq.read_table(table)
    words = whole.set_column(whole.column_names.index("price"), "price", [["a", "b", "c"]])
    pq.write_table(words, tmp_path / "d.parquet")
    assert refused(made, tmp_path / "d.parquet", out, kind=ek.DataError) == (
        f"{tmp_path}/d.parquet does not fit the spec\ncolumn 'price' is string, but {spec} says "
        "float32; correct the table"
    )
    steps = writing.sequence_example({"city": "rome"}, {"words": ["a"]})
    with tf.io.TFRecordWriter(f"{tmp_path}/s.tfrecord") as writer:
        writer.write(steps.SerializeToString())
    text = refused(made, tmp_path / "s.tfrecord", out, kind=ek.DataError)
    assert text.startswith(f"{tmp_path}/s.tfrecord: record 0: is a tf.train.SequenceExample")
    assert not out.exists()


def test_exports_that_cannot_be_used(made, tmp_path):
    write(tmp_path / "a.tfrecord", rows_to_predict(3, 0))
    write(tmp_path / "a.parquet", rows_to_predict(3, 0))
    record, out = tmp_path / "a.tfrecord", tmp_path / "out"
    nothing = dataclasses.replace(made, export=str(tmp_path))
    assert refused(nothing, record, out) == (
        f"--export_dir={tmp_path}: expected an export (a folder with saved_model.pb) or a folder "
        "of versions with one, got a folder with neither. Check the path, or write an export with "
        "--mode=export."
    )
    other = dict(DOCUMENT, columns={**DOCUMENT["columns"], "price": {"numeric": "price"}})
    (tmp_path / "other.yaml").write_text(json.dumps(other))
    text = refused(made, record, out, spec=f"{tmp_path}/other.yaml")
    assert text.startswith(
        f"--spec={tmp_path}/other.yaml differs from the spec of the export {made.export}:\n  "
    )
    assert text.endswith("Remove --spec: an export is used with the spec that it keeps.")
    foreign = dataclasses.replace(made, export=str(write_version(tmp_path / "foreign", 3)))
    assert refused(foreign, record, out) == (
        f"--export_dir={foreign.export} has no signature that takes serialized records: neither "
        "predict_examples nor serving_default does. Use an export of estimator_kit."
    )
    bare = shutil.copytree(made.export, tmp_path / "bare")
    shutil.rmtree(bare / "assets.extra")
    without = dataclasses.replace(made, export=str(bare))
    assert refused(without, tmp_path / "a.parquet", out) == (
        f"--export_dir={bare} has no feature spec, which says how rows of a table become records. "
        "Pass the spec that it was made with as --spec."
    )
    assert not out.exists()
    predict(without, record, out)  # Records need no spec.
    found = written(out / "a.tfrecord", ["click/logits"])
    same(found, {"click/logits": made.predictions([str(record)])["click/logits"]})
    (bare / "variables" / "variables.data-00000-of-00001").write_bytes(b"")
    assert refused(without, record, tmp_path / "more", kind=ExportError) == (
        f"--export_dir={bare} does not load: Read less bytes than requested. Use another version, "
        "or export again."
    )
    one_output = {"mode": "predict", "export_dir": str(bare), "predict_files": (str(record),),
                  "predict_output": f"{tmp_path}/out.jsonl"}  # fmt: skip
    with pytest.raises(ek.ConfigError) as error:
        ek.run(ek.ExperimentConfig(**one_output))
    assert str(error.value) == (
        f"--export_dir={bare} has no feature spec, which says how to read the records. Pass the "
        "spec that it was made with as --spec."
    )
    with pytest.raises(ExportError) as export_error:
        ek.run(
            ek.ExperimentConfig(
                **one_output, spec=f"{made.export}/assets.extra/feature_spec/spec.json"
            )
        )
    assert str(export_error.value) == (
        f"--export_dir={bare} does not load: Read less bytes than requested. Use another version, "
        "or export again."
    )


@pytest.fixture
def versions(made, tmp_path):
    """A folder with three versions: a damaged one, the export, and an incomplete copy."""
    folder = tmp_path / "versions"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "saved_model.pb").write_bytes(b"")
    shutil.copytree(made.export, folder / "12")
    (folder / "13").mkdir()
    return folder


def test_an_export_in_a_store(made, tmp_path):
    place = "ram://test_scoring/export"
    file_systems.copy_folder(made.export, place)
    found, local = exports.read(place, ""), exports.read(made.export, "")
    assert found.spec.to_dict() == local.spec.to_dict()
    assert found.spec.source == f"{place}/assets.extra/feature_spec/spec.json"
    writing.write_examples(f"{tmp_path}/a.tfrecord", make_rows(3))
    first, second = (
        next(iter(exports.predictions(one, [f"{tmp_path}/a.tfrecord"], 3)))
        for one in (found, local)
    )
    np.testing.assert_array_equal(first["click/logits"], second["click/logits"])


def test_the_newest_of_a_folder_of_versions(made, versions, tmp_path, caplog):
    """With and without --predict_dir. No --spec is needed, because the export keeps its spec."""
    record, output = tmp_path / "a.tfrecord", tmp_path / "out.jsonl"
    write(record, rows_to_predict(30, 0))
    expected = made.predictions([str(record)])
    fields = {"mode": "predict", "export_dir": str(versions), "predict_files": (str(record),)}
    with caplog.at_level("WARNING", "estimator_kit"):
        ek.run(ek.ExperimentConfig(**fields, predict_output=str(output), eval_batch_size=16))
    same(written(output, expected), expected)
    assert f"{versions}/13 has no saved_model.pb. Using {versions}/12." in caplog.text
    chosen = ("click/classes", "click/logits")
    ek.run(ek.ExperimentConfig(**fields, predict_output=str(output), predict_outputs=chosen))
    assert [tuple(row) for row in written(output, chosen)] == [chosen] * 30
    _, text = predict(dataclasses.replace(made, export=str(versions)), record, tmp_path / "out")
    assert f"\n  by {versions}/12: " in text
    same(written(tmp_path / "out" / "a.tfrecord", expected), expected)


def test_rows_are_in_the_order_of_the_files_that_are_given(made, tmp_path):
    """Also if a file is given twice, with the features of each record, as JSON and as Examples."""
    paths = [f"{tmp_path}/{name}.tfrecord" for name in "baba"]
    rows = {path: rows_to_predict(3 + i, i) for i, path in enumerate(sorted(set(paths)))}
    for path, of_file in rows.items():
        write(pathlib.Path(path), of_file)
    # `tags` is a list in the spec, `code` is not in the spec, and `row` is the number of the row.
    keep = ("row", "tags", "code")
    stored = [{name: row[name] for name in keep} for path in paths for row in rows[path]]
    logits = {path: made.predictions([path])["click/logits"] for path in rows}
    expected = np.concatenate([logits[path] for path in paths])
    fields = {"mode": "predict", "export_dir": made.export, "predict_files": tuple(paths),
              "keep_columns": keep, "predict_outputs": ("click/logits",)}  # fmt: skip
    output = tmp_path / "out.jsonl"
    ek.run(ek.ExperimentConfig(**fields, predict_output=str(output), eval_batch_size=4))
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert [list(row)[-1] for row in found] == ["click/logits"] * len(expected)
    np.testing.assert_allclose([row.pop("click/logits") for row in found], expected[:, 0], 1e-6)
    assert found == [{k: v for k, v in row.items() if v is not None} for row in stored]
    output = tmp_path / "out.tfrecord"
    ek.run(ek.ExperimentConfig(**fields, predict_output=str(output), predict_limit=5))
    records = list(tf.data.TFRecordDataset(str(output)).as_numpy_iterator())
    for record, row in zip(records, stored):
        features = tf.train.Example.FromString(record).features.feature
        assert set(features) == {k for k, v in row.items() if v is not None} | {"click/logits"}
        assert features["row"].int64_list.value == [row["row"]]
        assert features["tags"].bytes_list.value == [tag.encode() for tag in row["tags"]]
    assert len(records) == 5


def test_features_that_cannot_be_kept_with_one_file(made, tmp_path):
    record, output = tmp_path / "a.tfrecord", tmp_path / "out.jsonl"
    write(record, [{**row, "click/logits": 1.0} for row in rows_to_predict(3, 0)])

    def refused_to_keep(name):
        with pytest.raises(ek.ConfigError) as error:
            ek.run(
                ek.ExperimentConfig(
                    mode="predict", export_dir=made.export, predict_files=(str(record),),
                    keep_columns=(name,), predict_output=str(output),
                )
            )  # fmt: skip
        assert not output.exists()
        return str(error.value)

    assert refused_to_keep("cod") == (
        "--keep_columns: the first records of the files have no feature 'cod'. Did you mean 'code'?"
    )
    assert refused_to_keep("click/logits") == (
        "--keep_columns: 'click/logits' is also the name of a prediction. Rename the column."
    )


def test_the_settings_of_the_session(made, tmp_path, monkeypatch):
    record = tmp_path / "a.tfrecord"
    write(record, rows_to_predict(3, 0))
    loaded = []

    class Seen(LoadedModel):
        def __init__(self, path, version, **settings):
            loaded.append(settings)
            super().__init__(path, version, **settings)

    monkeypatch.setattr(exports, "LoadedModel", Seen)
    settings = {"threads": 3}
    fields = {"export_dir": made.export, "predict_files": (str(record),), **settings}
    ek.run(ek.ExperimentConfig(mode="predict", predict_output=f"{tmp_path}/out.jsonl", **fields))
    predict(made, record, tmp_path / "out", **settings)
    assert loaded == [settings] * 2


def test_empty_files_have_no_rows(made, tmp_path):
    write(tmp_path / "b.tfrecord", rows_to_predict(3, 0))
    (tmp_path / "a.tfrecord").write_bytes(b"")
    bare = shutil.copytree(made.export, tmp_path / "bare")
    shutil.rmtree(bare / "assets.extra")
    for name, export in (("out", made), ("rest", dataclasses.replace(made, export=str(bare)))):
        result, text = predict(export, tmp_path / "?.tfrecord", tmp_path / name,
                               keep_columns=("row",))  # fmt: skip
        assert (tmp_path / name / "a.tfrecord").read_bytes() == b""
        assert [row["row"] for row in written(tmp_path / name / "b.tfrecord", ())] == [0, 1, 2]
        assert result.rows_evaluated == 3
        assert text.splitlines()[-1] == (
            f"  note: {tmp_path}/a.tfrecord is empty, so the file of its predictions is empty too"
        )
    alone = refused(dataclasses.replace(made, export=str(bare)), tmp_path / "a.tfrecord",
                    tmp_path / "more", kind=ek.DataError)  # fmt: skip
    assert alone == (
        f"--predict_files: no records in {tmp_path}/a.tfrecord. Name files with records."
    )


def test_bad_records_without_a_spec(made, tmp_path):
    bare = shutil.copytree(made.export, tmp_path / "bare")
    shutil.rmtree(bare / "assets.extra")
    without = dataclasses.replace(made, export=str(bare))
    rows = rows_to_predict(20, 0)
    rows[17]["price"] = float("inf")
    write(tmp_path / "a.tfrecord", rows)
    text = refused(without, tmp_path / "a.tfrecord", tmp_path / "out", kind=ek.DataError)
    assert text.startswith(f"{tmp_path}/a.tfrecord: record 17: NaN or infinity in one of the")


def test_outputs_of_a_foreign_export():
    def output(dtype, *sizes):
        info = tf.compat.v1.saved_model.build_tensor_info(
            tf.compat.v1.placeholder(dtype, list(sizes) if sizes else None)
        )
        return exports._output("y", info, "e")

    with tf.Graph().as_default():
        assert output(tf.float32, None) == exports.Output("y", "float32", 1)
        assert output(tf.int64, None, 2, 3) == exports.Output("y", "int64", 6)
        assert output(tf.string, None, None) == exports.Output("y", "string", None)
        assert output(tf.string) == exports.Output("y", "string", None)
        with pytest.raises(ek.ConfigError) as error:
            output(tf.float32, 5, 2)
    assert str(error.value) == (
        "--export_dir=e: the output 'y' must have one value for each row, got the shape [5, 2]. "
        "Export the model with another output."
    )


def test_numbers_and_bytes_of_a_foreign_export(tmp_path):
    """Each kind of file holds types that no head of the kit returns."""
    answers = {
        "half": np.array([[0.5], [2.0]], np.float16), "wide": np.array([1e-9, 2.5]),
        "flag": np.array([[True], [False]]), "big": np.array([[2**64 - 1], [0]], np.uint64),
        "text": np.array([[b"a", b"\xff"], [b"", b"b"]], object),
    }  # fmt: skip
    declared = [exports.Output(n, v.dtype.name if n != "text" else "string", v[0].size)
                for n, v in answers.items()]  # fmt: skip

    def write(name, **changes):
        kind = kinds.kind_of(name)
        part = Part(f"x/{name}", kind, 0, ()) if kind in kinds.TABLES else None
        batch = Batch(np.array([b"", b""], object), (), f"x/{name}", 5, part)
        chosen = {**answers, **changes}
        with ShardFile(str(tmp_path), name, str(tmp_path)) as file:
            writer = outputs.writer(kind, file, name, declared, (), CsvOptions())
            try:
                writer.write(chosen, batch)
                writer.finish()
            except BaseException:
                writer.discard()
                raise

    for name, where, what in (("a.tfrecord", "record 5", "'big' is too large for int64"),
                              ("a.jsonl", "row 6", " is not UTF-8 text"),
                              ("a.parquet", "row 6", "'text' is not UTF-8 text"),
                              ("a.csv", "row 6", "'text' is not UTF-8 text")):  # fmt: skip
        with pytest.raises(ek.DataError) as error:
            write(name)
        assert str(error.value).startswith(f"x/{name}: {where}") and what in str(error.value)
        assert not (tmp_path / name).exists()
    with pytest.raises(ek.DataError) as error:
        write("a.tfrecord", big=answers["flag"], wide=np.array([0.0, 1e300]))
    assert str(error.value) == (
        "x/a.tfrecord: record 6: the output 'wide' is too large for float32, the type that an "
        "Example stores. Predict Parquet, CSV or JSON lines files."
    )
    text = np.array([[b"a", b"c"], [b"", b"b"]], object)
    for name in ("a.parquet", "a.csv", "a.jsonl"):
        write(name, text=text)
    table = pq.read_table(tmp_path / "a.parquet")
    assert [str(t) for t in table.schema.types] == [
        "halffloat", "double", "bool", "uint64", "list<element: string>",
    ]  # fmt: skip
    expected = {"half": 0.5, "wide": 1e-9, "flag": True, "big": 2**64 - 1, "text": ["a", "c"]}
    assert table.to_pylist()[0] == expected
    assert json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0]) == expected
    assert (tmp_path / "a.csv").read_text().splitlines()[1].split(",")[2:] == [
        "true", "18446744073709551615", '"a"', '"c"',
    ]  # fmt: skip


def test_names_of_outputs():
    assert plan.output_names(["x/a.csv", "y/b.csv"]) == {"x/a.csv": "a.csv", "y/b.csv": "b.csv"}
    paths = ["/d/dt=1/p.csv", "/d/dt=1/q.csv", "/d/dt=2/p.csv"]
    assert list(plan.output_names(paths).values()) == [
        "dt=1__p.csv", "dt=1__q.csv", "dt=2__p.csv",
    ]  # fmt: skip
    with pytest.raises(ek.ConfigError) as error:
        plan.output_names(["a__b/c", "a/b__c", "x/c", "x/b__c"])
    assert str(error.value) == (
        "--predict_files: the predictions of 2 files would have the same name 'a__b__c'. Predict "
        "these files into separate folders."
    )
    with pytest.raises(ek.ConfigError) as error:
        plan.output_names(["x/_a.csv"])
    assert str(error.value) == (
        "--predict_files: the predictions of a file would have the name '_a.csv', which readers of "
        "folders ignore. Rename the file."
    )


def test_flags_that_do_not_go_together():
    def problems(**fields):
        with pytest.raises(ek.ConfigError) as error:
            ek.ExperimentConfig(mode="predict", predict_files=("p",), **fields)
        return str(error.value).split("\n")

    fields = {"predict_dir": "d", "predict_output": "o.jsonl", "predict_limit": 3}
    assert problems(**fields, keep_columns=("a", "a", ""), predict_outputs=("a", "a")) == [
        "--predict_outputs: 'a' is listed twice. Remove one of them.",
        "--keep_columns: 'a' is listed twice. Remove one of them.",
        "--keep_columns: got an empty name. Remove it.",
        "--export_dir is missing. --predict_dir needs an export; write one from a checkpoint with "
        "--mode=export.",
        "--predict_output and --predict_dir do not go together. Give --predict_output for one "
        "file, or --predict_dir for a file of each input.",
        "--predict_limit does not go with --predict_dir, which predicts all rows. Remove one of "
        "the two.",
    ]
    assert problems(spec="s", export_dir="e", processes=2) == [
        "--processes is only for --predict_dir, which predicts many files with an export. "
        "Remove --processes."
    ]


CHOSEN = ("click/class_ids", "buy/logistic")


@pytest.mark.parametrize("kind", ["tfrecord", "csv", "jsonl", "parquet"])
def test_chosen_outputs_are_all_that_is_written(made, expected_of_parts, tmp_path, kind):
    rows, expected = expected_of_parts[0]
    write(tmp_path / f"a.{kind}", rows)
    _, text = predict(
        made, tmp_path / f"a.{kind}", tmp_path / "out", predict_outputs=CHOSEN,
        keep_columns=("user",),
    )  # fmt: skip
    assert f"  by {made.export}: click/class_ids, buy/logistic\n" in text
    found = written(tmp_path / "out" / f"a.{kind}", CHOSEN)
    assert all({*CHOSEN} <= {*row} <= {"user", *CHOSEN} for row in found)
    same(found, {name: expected[name] for name in CHOSEN})
    manifest = plan.ManifestDocument.load(f"{tmp_path}/out/_MANIFEST.json")
    assert list(manifest.outputs) == list(CHOSEN)


def test_a_second_start_with_other_outputs(made, tmp_path):
    write(tmp_path / "a.jsonl", rows_to_predict(3, 0))
    predict(made, tmp_path / "a.jsonl", tmp_path / "out", predict_outputs=CHOSEN)
    with pytest.raises(NothingToDo):
        predict(made, tmp_path / "a.jsonl", tmp_path / "out", predict_outputs=CHOSEN)
    with pytest.raises(ek.ConfigError, match=r"differs in the export \(outputs\): \[\"click/class"):
        predict(made, tmp_path / "a.jsonl", tmp_path / "out")


NO_SUCH_OUTPUT = (
    "--predict_outputs: the model has no output 'click/classs'. Did you mean 'click/classes'?"
)


@pytest.mark.ci
def test_chosen_outputs_in_one_file(made, expected_of_parts, tmp_path):
    rows, expected = expected_of_parts[2]
    write(tmp_path / "a.tfrecord", rows)
    (tmp_path / "spec.yaml").write_text(json.dumps(DOCUMENT))

    def run(*outputs):
        ek.run(ek.ExperimentConfig(
            mode="predict", spec=f"{tmp_path}/spec.yaml", export_dir=made.export,
            predict_files=f"{tmp_path}/a.tfrecord", predict_output=f"{tmp_path}/o.jsonl",
            predict_outputs=outputs,
        ))  # fmt: skip

    with pytest.raises(ek.ConfigError) as error:
        run("click/classs")
    assert str(error.value) == NO_SUCH_OUTPUT
    assert {path.name for path in tmp_path.iterdir()} == {"a.tfrecord", "spec.yaml"}
    run(*CHOSEN)
    found = written(tmp_path / "o.jsonl", CHOSEN)
    assert [list(row) for row in found] == [list(CHOSEN)] * len(rows)
    same(found, {name: expected[name] for name in CHOSEN})
    with pytest.raises(ek.ConfigError) as error:
        predict(made, tmp_path / "a.tfrecord", tmp_path / "out", predict_outputs=("click/classs",))
    assert str(error.value) == NO_SUCH_OUTPUT
    assert not (tmp_path / "out").exists()


def test_outputs_of_several_dimensions_and_of_bytes(tmp_path):
    """As an objective with steps has."""
    rows = [{"steps": np.float32([[1], [2], [3]]), "word": b"a\0"}]
    prediction.write(iter(rows), f"{tmp_path}/a.tfrecord")
    (record,) = tf.data.TFRecordDataset(f"{tmp_path}/a.tfrecord").as_numpy_iterator()
    features = tf.train.Example.FromString(record).features.feature
    assert features["steps"].float_list.value == [1, 2, 3]
    assert features["word"].bytes_list.value == [b"a\0"]
    prediction.write(iter(rows), f"{tmp_path}/a.jsonl")
    with open(f"{tmp_path}/a.jsonl", encoding="utf-8") as file:
        assert json.load(file) == {"steps": [1, 2, 3], "word": "a\0"}
    with pytest.raises(ek.DataError, match="the output 'word' is not UTF-8 text, which JSON needs"):
        prediction.write(iter([{"word": b"\xff"}]), f"{tmp_path}/b.jsonl")


def test_outputs_of_batches():
    batches = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert list(prediction.chosen(iter(batches), ("b",))) == [{"b": 2}, {"b": 4}]
    assert list(prediction.chosen(iter(batches), ())) == batches
    assert list(prediction.chosen(iter([]), ("c",))) == []
    with pytest.raises(ek.ConfigError, match=r"no output 'c'\. Use one of: a, b"):
        prediction.chosen(iter(batches), ("c",))


def test_a_table_without_a_folder(made, tmp_path):
    write(tmp_path / "a.csv", rows_to_predict(3, 0))
    (tmp_path / "spec.yaml").write_text(json.dumps(DOCUMENT))
    with pytest.raises(ek.ConfigError) as error:
        ek.run(ek.ExperimentConfig(
            mode="predict", spec=f"{tmp_path}/spec.yaml", export_dir=made.export,
            predict_files=(f"{tmp_path}/a.csv",), predict_output=f"{tmp_path}/o.jsonl",
        ))  # fmt: skip
    assert str(error.value) == (
        f"--predict_files: expected TFRecord files, got the CSV file {tmp_path}/a.csv. To predict "
        "tables, use an export: give --export_dir and --predict_dir."
    )


def test_a_program_predicts_with_it(made, tmp_path):
    write(tmp_path / "a.tfrecord", rows_to_predict(3, 0))
    result = ek.run(config(made, tmp_path / "a.tfrecord", tmp_path / "out"))
    assert (result.mode, result.rows_evaluated) == ("predict", 3)
    assert not work._loaded
