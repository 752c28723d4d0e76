"""--mode=analyze with --convert_dir: from a raw table to the flags of a training."""

from __future__ import annotations

import random

import pytest

import feature_specs
from input_pipelines.record_files import writing
from tests.programs import run


def table(folder, name="raw.csv", rows=400):
    rng = random.Random(0)
    lines = [f"{i % 2},c{rng.randrange(9)},{rng.random():.3f},{i // 4}" for i in range(rows)]
    (folder / name).write_text("\n".join(["click,color,price,user_id", *lines, ""]))


def analyze(folder, *flags, files="raw.csv", labels="click", code=0):
    done = run(
        folder, "--mode=analyze", f"--train_files={files}", f"--labels={labels}",
        "--analysis_dir=first", *flags,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr.splitlines()[-1]


def flags_of(folder):
    """The flags of exp.flags, and the comment above each."""
    found, comment = {}, ""
    for line in (folder / "first/exp.flags").read_text().splitlines():
        if line.startswith("#"):
            comment += line[1:]
        elif line:
            name, _, value = line[2:].partition("=")
            found[name] = (value, comment.strip())
            comment = ""
        else:
            comment = ""
    return found


def test_two_commands(tmp_path):
    table(tmp_path)
    report = analyze(tmp_path, "--convert_dir=first/data")
    assert report.splitlines()[-1] == (
        "  estimator-kit train_and_evaluate --flagfile=first/exp.flags"
    )
    flags = flags_of(tmp_path)
    assert flags["spec"][0] == "first/spec.yaml"
    assert flags["train_files"][0] == "first/data/train-*"
    assert flags["eval_files"][0] == "first/data/eval-*,test=first/data/test-*"
    assert flags["model_dir"][0] == "first/model"
    assert flags["reference_models"][0] == "constant,linear,boosted_trees"
    assert all(comment for _, comment in flags.values())
    counts = {part: sum(1 for path in (tmp_path / "first/data").glob(f"{part}-*"))
              for part in ("train", "eval", "test")}  # fmt: skip
    assert counts == {"train": 1, "eval": 1, "test": 1}
    # The flags are the settings of a training, and name files that exist.
    done = run(tmp_path, "validate", "--flagfile=first/exp.flags")
    assert done.returncode == 0, done.stderr
    # The same command again changes nothing, also after a training.
    (tmp_path / "first/model").mkdir()
    (tmp_path / "first/model/versions.json").write_text("{}")
    before = {p: p.read_bytes() for p in (tmp_path / "first").rglob("*") if p.is_file()}
    assert "3 shards existed already" in analyze(tmp_path, "--convert_dir=first/data")
    assert before == {p: p.read_bytes() for p in (tmp_path / "first").rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--ignore=color"],
            "error: --analysis_dir: 'first/spec.yaml' would change, and 'first/data'",
        ),
        (["--split=rows"], "error: --convert_dir: "),
    ],
)
def test_an_analysis_that_is_refused_changes_nothing(tmp_path, flags, message):
    """Another spec, and another split of the same rows."""
    table(tmp_path)
    analyze(tmp_path, "--convert_dir=first/data", "--split=key:user_id")
    before = {p: p.read_bytes() for p in (tmp_path / "first").rglob("*") if p.is_file()}
    assert analyze(tmp_path, "--convert_dir=first/data", *flags, code=2).startswith(message)
    assert before == {p: p.read_bytes() for p in (tmp_path / "first").rglob("*") if p.is_file()}


def test_flags_that_a_user_changed_stay(tmp_path):
    table(tmp_path)
    analyze(tmp_path, "--convert_dir=data")
    path = tmp_path / "first/exp.flags"
    path.write_text(path.read_text().replace("--model=", "--model=d"))
    mine = path.read_text()
    assert analyze(tmp_path, "--convert_dir=data", code=2).startswith(
        "error: --analysis_dir: 'first/exp.flags' was changed since analysis wrote it; name "
    )
    assert path.read_text() == mine


@pytest.mark.parametrize(
    "flags, split",
    [
        ((), "rows at random, so rows of one user_id are on both sides; for a user_id that is new, "
             "use --split=key:user_id (--split=rows --split_eval=0.1 --split_test=0.1)"),
        (("--split=key:user_id",),
         "as --split says (--split=key:user_id --split_eval=0.1 --split_test=0.1)"),
        (("--split=time:user_id", "--split_eval=80"),
         "as --split says (--split=time:user_id --split_eval=80)"),
        (("--split_eval=0.3",),
         "rows at random, so rows of one user_id are on both sides; for a user_id that is new, "
         "use --split=key:user_id (--split=rows --split_eval=0.3)"),
    ],
)  # fmt: skip
def test_the_split(tmp_path, flags, split):
    table(tmp_path)
    report = analyze(tmp_path, "--convert_dir=data", *flags)
    assert f"  {split}\n" in report
    parts = {path.name.partition("-")[0] for path in (tmp_path / "data").glob("*-of-*")}
    assert parts == ({"train", "eval", "test"} if "split_test" in split else {"train", "eval"})


def test_a_table_that_is_not_converted(tmp_path):
    table(tmp_path)
    report = analyze(tmp_path)
    assert report.splitlines()[-1] == (
        "  estimator-kit convert --spec=first/spec.yaml --convert_files=raw.csv "
        "--convert_dir=first/data --split=rows --split_eval=0.1 --split_test=0.1"
    )
    assert not (tmp_path / "first/exp.flags").exists()
    command = report.splitlines()[-1].split()[1:]
    assert run(tmp_path, *command).returncode == 0


def test_records(tmp_path):
    rows = [{"click": i % 2, "color": f"c{i % 9}"} for i in range(300)]
    writing.write_examples(f"{tmp_path}/a.tfrecord", rows)
    report = analyze(tmp_path, files="a.tfrecord")
    assert report.splitlines()[-1] == "  estimator-kit train --flagfile=first/exp.flags"
    flags = flags_of(tmp_path)
    assert flags["train_files"][0] == "a.tfrecord" and "eval_files" not in flags
    assert "\n# --eval_files=<other files>\n" in (tmp_path / "first/exp.flags").read_text()
    assert analyze(tmp_path, "--convert_dir=data", files="a.tfrecord", code=2) == (
        "error: --convert_dir: a.tfrecord is a TFRecord file, which needs no conversion. Remove "
        "the flag."
    )


def test_a_ranking(tmp_path):
    rng = random.Random(0)
    lines = [f"{rng.randrange(5)} qid:{i // 10} 1:{rng.random():.3f} 2:{'NULL' if i % 3 else 7}"
             for i in range(1000)]  # fmt: skip
    (tmp_path / "raw.svm").write_text("\n".join(lines))
    report = analyze(tmp_path, "--convert_dir=data", files="raw.svm", labels="label")
    assert "  no column: qid: it names the group of a row, and models do not read it\n" in report
    assert (
        "  all rows of one qid are on the same side, to be ranked (--split=key:qid "
        "--split_eval=0.1 --split_test=0.1)\n"
    ) in report
    assert "--convert_order" not in report  # Rows of a query stay neighbors.
    spec = feature_specs.load(tmp_path / "first/spec.yaml")
    assert spec.to_dict()["objectives"] == {"label": {"head": "ranking", "group_by": "qid"}}
    text = (tmp_path / "first/spec.yaml").read_text()
    assert "  label: {head: ranking, group_by: qid, metrics: [{ndcg: 10}]}\n" in text
    assert "qid" in spec.features and not any(
        "qid" in spec.features_of(name) for name in spec.columns
    )
    assert flags_of(tmp_path)["best_metric"][0] == "ndcg_at_10/label"


def log(folder, header="user_id,item_id,rating,timestamp"):
    rng = random.Random(0)
    lines = [f"{u},{rng.randrange(12)},3,{t}" for t in range(12) for u in range(30)]
    (folder / "raw.csv").write_text("\n".join([header, *lines, ""]))


def test_a_log_for_next_items(tmp_path):
    log(tmp_path)
    report = analyze(tmp_path, "--convert_dir=first/data", labels="next_item_id")
    for line in (
        "  user_id: whose history it is, a guess by its name (--sequence_by=...)",
        "  timestamp: what orders a history, a guess by its name (--order_by=...)",
        "  item_id: each step, as the label says (--sequence_columns=item_id,...)",
    ):
        assert line in report.splitlines()
    assert report.splitlines()[-1].endswith("train_and_evaluate --flagfile=first/exp.flags")
    spec = feature_specs.load(tmp_path / "first/spec.yaml")
    assert spec.objectives["next_item_id"].head == "next_item"
    flags = flags_of(tmp_path)
    assert flags["model"][0] == "sasrec" and "reference_models" not in flags
    assert flags["train_files"] == (
        "first/data/train-*", "30 records: histories without their last two items."
    )  # fmt: skip


def test_a_log_whose_columns_the_user_names(tmp_path):
    log(tmp_path, "who,item_id,rating,number")
    message = analyze(tmp_path, "--convert_dir=data", labels="next_item_id", code=2)
    assert message == (
        "error: --sequence_by is missing, and no column has the name of a person. Name one of: "
        "who, item_id, rating, number."
    )
    report = analyze(
        tmp_path, "--convert_dir=data", "--sequence_by=who", "--order_by=number",
        "--sequence_columns=item_id,rating", "--sequence_steps=6", labels="next_item_id",
    )  # fmt: skip
    assert "a guess" not in report and "rating" in (tmp_path / "first/spec.yaml").read_text()


@pytest.mark.parametrize(
    "flags, labels, message",
    [
        ((), "next_item_id",
         "error: --labels: 'next_item_id' is the next item_id of a history, which a conversion "
         "makes. Name a folder for its records with --convert_dir."),
        (("--convert_dir=data",), "next_item_id,rating",
         "error: --labels: expected only next_item_id with sequences of 'item_id', got "
         "next_item_id,rating. Analyze the other labels without --sequence_by."),
        (("--split=rows",), "rating",
         "error: --split is for the records that an analysis writes. Name their folder with "
         "--convert_dir."),
        (("--convert_dir=data", "--split_eval=2"), "rating",
         "error: --split_eval: expected a share between 0 and 1, such as 0.1, got '2'."),
    ],
)  # fmt: skip
def test_mistakes(tmp_path, flags, labels, message):
    log(tmp_path)
    assert analyze(tmp_path, *flags, labels=labels, code=2) == message
    assert not (tmp_path / "first").exists() and not (tmp_path / "data").exists()
