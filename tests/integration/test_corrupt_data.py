"""Runs on damaged files: each policy, its reports, and --mode=check_data."""

from __future__ import annotations

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit import exit_codes, main
from estimator_kit.result import read_result
from estimator_kit.training import bad_data
from estimator_kit.training.position import find_position
from input_pipelines.record_files import writing
from tests.conftest import make_rows, place, small_run, variables

MISSING = (
    "feature 'city' is missing, and it has no default in the spec; give it one if records may lack "
    "it"
)


@pytest.fixture
def data(ads, tmp_path):
    """The files of `ads`, with a flipped bit in record 100 of file 2, and a bad row in file 3.

    So two of the four files have a bad record, 2 of 400 in total.
    """
    folder = tmp_path / "data"
    shutil.copytree(ads, folder)
    flip(folder / "train-1.tfrecord", 100)
    rows = make_rows(90, seed=2)
    rows[33]["city"] = None
    writing.write_examples(str(folder / "train-2.tfrecord"), rows)
    return folder


def flip(path: pathlib.Path, number: int) -> None:
    """Flips a bit in the payload of a record."""
    content = bytearray(path.read_bytes())
    content[int(place(str(path), number).split()[-1]) + 30] ^= 16
    path.write_bytes(content)


@pytest.fixture
def config(data, tmp_path):
    return small_run(data, tmp_path / "model", model="linear", epochs=1)


def payload_of(path, number):
    content = pathlib.Path(path).read_bytes()
    offset = int(place(str(path), number).split()[-1])
    return int.from_bytes(content[offset : offset + 8], "little")


def wrong_payload(data):
    path = f"{data}/train-1.tfrecord"
    size = payload_of(path, 100)
    return f"{path}: {place(path, 100)}: the checksum of its payload of {size} bytes is wrong"


# --- fail -----------------------------------------------------------------------------------------


def test_a_flipped_bit_stops_a_training_by_name(config, data):
    run = config(epochs=None, max_steps=50, mode="train", shuffle=False)
    with pytest.raises(ek.DataError) as error:
        ek.run(run)
    assert str(error.value) == wrong_payload(data)
    assert exit_codes.exit_code(error.value) == 65
    kept = read_result(run.model_dir)
    assert kept.status == "failed" and wrong_payload(data) in kept.error
    assert kept.bad_data == {}


def cut_where_tensorflow_says_nothing(path: pathlib.Path) -> str:
    """Cuts a file inside the first bytes of record 80, or a GZIP file where that record starts."""
    content = path.read_bytes()
    begin = int(place(str(path), 80).split()[-1])
    path.write_bytes(content[: begin + 7])
    return f"record 80 at byte {begin}: it is cut off: the file has only 7 of its first 12 bytes"


@pytest.mark.parametrize("mode", ["train", pytest.param("evaluate", marks=pytest.mark.nightly)])
def test_a_file_that_tensorflow_would_read_as_shorter_is_an_error(config, data, mode):
    if mode == "evaluate":
        ek.run(config(mode="train", train_files=(f"{data}/train-0.tfrecord",)))
    path = data / ("eval.tfrecord" if mode == "evaluate" else "train-0.tfrecord")
    reason = cut_where_tensorflow_says_nothing(path)
    assert sum(1 for _ in tf.data.TFRecordDataset(str(path))) == 80
    run = config(mode=mode, train_files=(f"{data}/train-0.tfrecord",), epochs=None, max_steps=9)
    with pytest.raises(ek.DataError) as error:
        ek.run(run)
    assert str(error.value) == f"{path}: {reason}"


def test_an_empty_file_is_an_error_before_anything_is_written(config, data, tmp_path):
    (data / "train-0.tfrecord").write_bytes(b"")
    with pytest.raises(ek.DataError) as error:
        ek.run(config())
    assert str(error.value) == (
        f"{data}/train-0.tfrecord: record 0 at byte 0: the file is empty: it has 0 bytes"
    )
    assert not (tmp_path / "model").exists()


# --- skip_record and quarantine -------------------------------------------------------------------


@pytest.mark.ci
def test_skip_record_reads_all_others_and_counts(config, data):
    run = config(corrupt_data_policy="skip_record")
    result = ek.run(run)
    assert (result.rows_trained, result.rows_evaluated) == (398, 200)
    size = {n: pathlib.Path(f"{data}/train-{n}.tfrecord").stat().st_size for n in (0, 1, 2)}
    size[3] = pathlib.Path(f"{data}/train-3.tfrecord.gz").stat().st_size
    counts = result.bad_data["train_files"]
    lost = 32 + payload_of(f"{data}/train-1.tfrecord", 100)
    lost += payload_of(f"{data}/train-2.tfrecord", 33)
    assert counts == {
        "files": 4, "bad_files": 2, "records": 400, "bad_records": 2, "records_left_out": 2,
        "fraction_left_out": pytest.approx(max(2 / 400, lost / sum(size.values()))),
        "lost_bytes": lost, "quarantined": [],
    }  # fmt: skip
    assert result.bad_data["eval_files"]["bad_records"] == 0
    kept = read_result(run.model_dir).bad_data
    assert (kept["policy"], kept["train_files"]["bad_records"]) == ("skip_record", 2)
    listed = json.loads(pathlib.Path(f"{run.model_dir}/bad_data.json").read_text())["bad_files"]
    assert [(file["path"], file["bad_records"]) for file in listed] == [
        (f"{data}/train-1.tfrecord", 1), (f"{data}/train-2.tfrecord", 1),
    ]  # fmt: skip
    path = f"{data}/train-2.tfrecord"
    assert listed[1]["first_bad_records"] == [
        {"record": 33, "byte": int(place(path, 33).split()[-1]), "reason": MISSING}
    ]
    with pytest.raises(ek.NothingToDo):
        ek.run(run)


@pytest.mark.ci
def test_quarantine_leaves_out_whole_files_and_lists_them(config, data):
    before = {path: path.read_bytes() for path in data.iterdir()}
    run = config(corrupt_data_policy="quarantine")
    result = ek.run(run)
    assert result.rows_trained == 150 + 30
    counts = result.bad_data["train_files"]
    assert counts["quarantined"] == [f"{data}/train-1.tfrecord", f"{data}/train-2.tfrecord"]
    assert (counts["bad_records"], counts["records_left_out"]) == (2, 130 + 90)
    assert read_result(run.model_dir).bad_data["train_files"] == counts
    assert {path: path.read_bytes() for path in data.iterdir()} == before


@pytest.mark.nightly  # The next test looks at the same position, without training.
def test_a_restart_goes_on_behind_the_rows_that_were_read(config, tmp_path):
    policy = {"corrupt_data_policy": "skip_record", "mode": "train", "epochs": 2}
    whole = config(**policy, model_dir=str(tmp_path / "whole"))
    pieces = config(**policy)
    ek.run(whole)
    ek.run(pieces.model_copy(update={"max_steps": 9}))
    second = ek.run(pieces)
    assert second.rows_trained == 2 * 398 - 9 * 50
    expected, found = variables(whole.model_dir), variables(pieces.model_dir)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def screened(config, data):
    files = {"--train_files": sorted(map(str, data.glob("train-*")))}
    return bad_data.screen(config, config, ek.load_spec(config.spec), files)


def test_what_is_left_out_is_part_of_the_input(config, data, caplog):
    run = config(corrupt_data_policy="skip_record")
    found = screened(run, data)
    files, before = found.files["--train_files"], found.left_out("--train_files")
    assert sorted(before) == files[1:3]
    find_position(run, run, run, files, 0, before).write(run.model_dir, None)
    assert find_position(run, run, run, files, 2, before).steps_read == 2
    flip(data / "train-1.tfrecord", 7)  # The size of the file stays the same.
    after = screened(run, data).left_out("--train_files")
    with caplog.at_level("WARNING", "estimator_kit"):
        assert find_position(run, run, run, files, 2, after).steps_read == 0
    content = f"files: 1 with other content: {data}/train-1.tfrecord"
    assert f"the input changed since step 2 ({content}, left_out), so counting" in caplog.text


def test_limits_stop_a_run_before_it_begins(config, data, tmp_path):
    first = "\n".join(
        [
            f"  {data}/train-1.tfrecord: 1 of 130 records are bad, the first: "
            + wrong_payload(data).partition(": ")[2],
            f"  {data}/train-2.tfrecord: 1 of 90 records are bad, the first: "
            f"{place(f'{data}/train-2.tfrecord', 33)}: {MISSING}",
        ]
    )
    with pytest.raises(ek.DataError) as error:
        ek.run(config(corrupt_data_policy="skip_record", max_bad=1))
    assert str(error.value) == (
        "the 4 files of --train_files have 2 bad records, more than --max_bad=1\n" + first
    )
    assert not (tmp_path / "model").exists()
    with pytest.raises(ek.DataError) as error:
        screened(config(corrupt_data_policy="quarantine", max_bad="50%"), data)
    heading = "% unreadable data, more than --max_bad=0.5\n" + first
    assert str(error.value).endswith(heading)
    assert screened(config(corrupt_data_policy="skip_record", max_bad=2), data).records == {
        "--train_files": 398
    }


def test_nothing_left_is_an_error_whatever_the_limits(config, data):
    path = data / "train-0.tfrecord"
    path.write_bytes(b"")
    with pytest.raises(ek.DataError, match="have no good record\n"):
        ek.run(config(train_files=(str(path),), corrupt_data_policy="skip_record"))


def test_limits_need_a_policy_that_has_some(config):
    with pytest.raises(ek.ConfigError) as error:
        config(max_bad=3)
    assert str(error.value) == (
        "--max_bad is a limit for --corrupt_data_policy=skip_record or quarantine, but the "
        "policy fail stops at the first bad record. Choose another policy, or remove --max_bad."
    )


@pytest.mark.nightly
def test_evaluation_and_predictions_leave_out_bad_records(config, data, tmp_path):
    ek.run(config(mode="train", train_files=(f"{data}/train-0.tfrecord",)))
    flip(data / "eval.tfrecord", 0)
    skipping = {"corrupt_data_policy": "skip_record"}
    result = ek.run(config(mode="evaluate", **skipping))
    assert result.rows_evaluated == 199 and result.bad_data["eval_files"]["bad_records"] == 1
    export = ek.run(config(mode="export", **skipping)).export_path
    for i, changes in enumerate(({}, {"export_dir": export})):
        # Labels are not checked.
        output = tmp_path / f"{i}.jsonl"
        run = config(mode="predict", predict_files=(f"{data}/eval.tfrecord",),
                     predict_output=str(output), **skipping, **changes)  # fmt: skip
        result = ek.run(run)
        assert result.rows_evaluated == len(output.read_text().splitlines()) == 199
        assert result.bad_data["predict_files"]["bad_records"] == 1


@pytest.fixture
def garbage(data):
    """`data`, with an additional file in which the payload of record 20 is not UTF-8."""
    path = str(data / "train-4.tfrecord")
    records = [writing.example(row).SerializeToString() for row in make_rows(70, seed=4)]
    records[20] = b"\xff\xfe\x00garbage"
    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    return path


@pytest.mark.nightly
def test_garbage_in_a_right_frame_is_a_bad_record(config, garbage, tmp_path):
    message = f"{garbage}: {place(garbage, 20)}: is not a serialized tf.train.Example"
    files = {"train_files": (garbage,), "mode": "train"}
    with pytest.raises(ek.DataError) as error:
        ek.run(config(**files, shuffle=False))
    assert str(error.value) == message
    skipping = config(**files, model_dir=str(tmp_path / "m"), corrupt_data_policy="skip_record")
    assert ek.run(skipping).rows_trained == 69
    with pytest.raises(ek.DataError) as error:
        ek.run(config(mode="evaluate", model_dir=skipping.model_dir, eval_files=(garbage,),
                      train_files=()))  # fmt: skip
    assert str(error.value) == message
    with pytest.raises(ek.DataError) as error:
        ek.run(config(mode="check_data", train_files=(garbage,)))
    assert message in str(error.value).splitlines()


# --- --mode=check_data ----------------------------------------------------------------------------


def check(*arguments, capsys):
    code = main.main(["run.py", "--mode=check_data", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_check_data_prints_a_table_and_exits_65(data, tmp_path, capsys):
    flags = [f"--train_files={data}/train-*", f"--model_dir={tmp_path}/checked"]
    code, out, err = check(*flags, f"--spec={data}/spec.yaml", capsys=capsys)
    assert (code, out) == (65, "")
    lines = err.splitlines()
    sizes = [16 + payload_of(f"{data}/train-{n}.tfrecord", i) for n, i in ((1, 100), (2, 33))]
    assert lines[:8] == [
        "error: 2 of 4 files have bad records",
        "bad records  records  lost bytes  file",
        "-----------  -------  ----------  ----",
        f"          1      130  {sizes[0]:>10}  {data}/train-1.tfrecord",
        f"          1       90  {sizes[1]:>10}  {data}/train-2.tfrecord",
        "",
        wrong_payload(data),
        f"{data}/train-2.tfrecord: {place(f'{data}/train-2.tfrecord', 33)}: {MISSING}",
    ]
    assert lines[9].startswith("400 records in 4 files, compared with the spec; 0.0 MB in ")
    assert lines[9].endswith("MB/s); 2 bad records in 2 files")
    assert lines[10] == f"written to {tmp_path}/checked/result.json"
    kept = read_result(str(tmp_path / "checked"))
    assert (kept.mode, kept.status) == ("check_data", "failed")
    counts = {name: kept.bad_data[name] for name in ("files", "bad_files", "records")}
    assert counts == {"files": 4, "bad_files": 2, "records": 400}
    assert kept.bad_data["listing"][1]["first_bad_records"][0]["record"] == 33


def test_check_data_without_a_spec_looks_at_framing_and_form(data, capsys):
    code, _, err = check(f"--train_files={data}/train-*", capsys=capsys)
    assert code == 65 and "1 bad records in 1 files" in err
    code, out, err = check(f"--predict_files={data}/train-2.tfrecord", capsys=capsys)
    assert (code, err) == (0, "")
    assert out.startswith(
        "90 records in 1 files, not compared with a spec, because --spec is missing; "
    )
    assert out.endswith("; 0 bad records in 0 files\n")


@pytest.mark.nightly
def test_check_data_leaves_the_result_of_a_training_alone(config, data):
    ek.run(config(mode="train", train_files=(f"{data}/train-0.tfrecord",)))
    before = read_result(config().model_dir)
    result = ek.run(config(mode="check_data", train_files=(f"{data}/train-0.tfrecord",)))
    assert result.bad_data["bad_records"] == 0 and result.bad_data["records"] == 350
    assert read_result(config().model_dir) == before
    path = pathlib.Path(config().model_dir) / "check_data.json"
    assert json.loads(path.read_text())["bad_data"]["records"] == 350


def test_check_data_needs_files():
    with pytest.raises(ek.ConfigError) as error:
        ek.ExperimentConfig(mode="check_data")
    assert str(error.value) == (
        "--train_files is missing. --mode=check_data needs it unless you give --train_mix, "
        "--eval_files or --predict_files."
    )
