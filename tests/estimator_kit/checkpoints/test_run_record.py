"""run_record: which changes make a spec differ from the spec stored in a model directory."""

from __future__ import annotations

import json
import re
import shutil

import pytest

import feature_specs
from estimator_kit.checkpoints import run_record
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import command_of


def spec_of(folder, **files):
    """A spec with a vocabulary column for each name of `files`, which are `name: (path, words)`."""
    for path, words in files.values():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("\n".join(words) + "\n", encoding="utf-8")
    columns = {f"{name}_id": {"vocabulary": name, "file": files[name][0]} for name in files}
    document = {
        "features": {name: {"dtype": "string"} for name in files},
        "columns": columns,
        "groups": {"wide": list(columns)},
        "labels": {"click": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}},
    }
    return feature_specs.parse(document, directory=str(folder))


def changes_between(folder, before, now):
    config = ExperimentConfig(mode="validate", spec="s", model_dir=str(folder))
    run_record.write_record(command_of(config), spec_of(folder, **before))
    return run_record.changes_since(f"{folder}/feature_spec", spec_of(folder, **now))


def test_the_same_words_under_another_path_are_the_same_vocabulary(tmp_path):
    before = {"tag": ("tag.txt", ["a", "b"]), "city": ("city.txt", ["c"])}
    assert changes_between(tmp_path, before, {**before, "tag": ("v2/tag.txt", ["a", "b"])}) == []
    # This holds even if the new path was the path of another vocabulary.
    moved = {"tag": ("city.txt", ["a", "b"]), "city": ("town.txt", ["c"])}
    assert changes_between(tmp_path, before, moved) == []


def test_other_words_are_another_vocabulary_under_any_path(tmp_path):
    before = {"tag": ("tag.txt", ["a", "b"])}
    words = "2 words, SHA-256"
    for path in ("tag.txt", "new.txt"):
        (change,) = changes_between(tmp_path, before, {"tag": (path, ["b", "a"])})
        assert re.fullmatch(rf'columns.tag_id.words: was "{words} \w+", is "{words} \w+"', change)


def test_words_in_the_spec_and_in_a_file_are_the_same(tmp_path):
    files = spec_of(tmp_path, tag=("tag.txt", ["a", "b"]))
    document = files.to_dict()
    document["columns"]["tag_id"] = {"vocabulary": "tag", "list": ["a", "b"]}
    listed = feature_specs.parse(document)
    assert files.meaning(["values"]) == listed.meaning(["values"])
    document["columns"]["tag_id"] = {"vocabulary": "tag", "file": "tag.txt", "size": 1}
    first = feature_specs.parse(document, directory=str(tmp_path))
    assert files.meaning(["values"]) != first.meaning(["values"])


def test_settings_are_compared_with_those_of_the_last_start(tmp_path):
    def config(**values):
        given = {"mode": "train", "spec": "s", "model_dir": str(tmp_path), "train_files": ("t",)}
        return ExperimentConfig(**{**given, "max_steps": 5, **values})

    names = ("batch_size", "shuffle", "train_files", "max_steps", "epochs")
    assert run_record.changed_flags(command_of(config()), names) == []  # Nothing was started here.
    run_record.write_record(command_of(config()), spec_of(tmp_path, tag=("tag.txt", ["a"])))
    assert run_record.changed_flags(command_of(config()), names) == []
    other = config(batch_size=7, shuffle=False, train_files=("a", "b"), max_steps=None, epochs=2)
    expected = [
        "--batch_size: was 512, is 7", "--epochs: was absent, is 2",
        "--max_steps: was 5, is absent", "--shuffle: was true, is false",
        '--train_files: was ["t"], is ["a", "b"]',
    ]  # fmt: skip
    assert run_record.changed_flags(command_of(other), names) == expected
    # Another version had a flag that is gone, and does not know --batch_size, which has a default.
    (tmp_path / "flags.txt").write_text("--gone=1\n--max_steps=many\n--noshuffle\n")
    assert (
        run_record.changed_flags(command_of(config(shuffle=False)), ("batch_size", "shuffle")) == []
    )


def test_the_answers_and_the_loss_of_a_head_may_change_and_its_items_may_not(tmp_path):
    def spec(**fields):
        return feature_specs.parse(
            {
                "features": {"item": {"dtype": "int64", "shape": "variable"}},
                "columns": {
                    "item": {"identity": "item", "size": 5, "sequence": True},
                    "other": {"identity": "item", "size": 6, "sequence": True},
                    "item_emb": {"embedding": "item", "dimension": 2},
                    "other_emb": {"embedding": "other", "dimension": 2},
                },
                "groups": {"steps": ["item_emb"], "more": ["other_emb"]},
                "labels": {"next": {"dtype": "int64", "shape": "variable"}},
                "objectives": {"next": {"head": "next_item", **{"items": "item", **fields}}},
            }
        )

    config = ExperimentConfig(mode="validate", spec="s", model_dir=str(tmp_path))
    run_record.write_record(command_of(config), spec())
    folder = f"{tmp_path}/feature_spec"
    answers = spec(exclude_seen=True, top_k=3, metrics=[{"recall": 3}])
    assert run_record.changes_since(folder, answers) == []
    assert run_record.changes_since(folder, spec(loss="bpr")) == []
    other = run_record.changes_since(folder, spec(items="other"))
    assert other == ['objectives.next.items: was "item", is "other"']


def test_features_that_nothing_reads_may_come_and_go(tmp_path):
    def spec(**more):
        features = {name: {"dtype": "string"} for name in ("tag", *more.pop("features", ()))}
        document = {
            "features": features, "columns": {"tag": {"hash_bucket": "tag", "size": 5}},
            "groups": {"wide": ["tag"]}, "labels": {"click": {"dtype": "int64"}},
            "objectives": {"click": {"head": "binary"}}, **more,
        }  # fmt: skip
        return feature_specs.parse(document)

    config = ExperimentConfig(mode="validate", spec="s", model_dir=str(tmp_path))
    folder = f"{tmp_path}/feature_spec"
    run_record.write_record(command_of(config), spec())
    more = spec(features=("note", "city"), ignored=["note", "city"])
    assert run_record.changes_since(folder, more) == []
    run_record.write_record(command_of(config), more)
    assert run_record.changes_since(folder, spec()) == []
    read = spec(features=("city",), filter=[{"feature": "city", "in": ["rome"]}])
    assert run_record.changes_since(folder, read) == []  # The position compares the filter.
    run_record.write_record(command_of(config), spec())
    assert run_record.changes_since(folder, read) == []


def test_a_stored_spec_of_an_earlier_release_has_its_tables_in_its_columns(tmp_path):
    features = {name: {"dtype": "string"} for name in ("item", "seen")}
    document = {
        "features": features,
        "embedding_tables": {"items": {"dimension": 3, "initializer": "zeros"}},
        "columns": {
            **{f"{name}_id": {"hash_bucket": name, "size": 9} for name in features},
            **{f"{name}_emb": {"embedding": f"{name}_id", "table": "items"} for name in features},
        },
        "groups": {"deep": ["item_emb", "seen_emb"]},
        "labels": {"click": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}},
    }
    spec = feature_specs.parse(document)
    config = ExperimentConfig(mode="validate", spec="s", model_dir=str(tmp_path))
    run_record.write_record(command_of(config), spec)
    path = tmp_path / "feature_spec" / "spec.json"
    stored = json.loads(path.read_text("utf-8"))
    assert stored["columns"]["item_emb"] == {
        "embedding": "item_id", "table": "items", "combiner": "mean"
    }  # fmt: skip
    table = stored.pop("embedding_tables")["items"]
    for name in ("item_emb", "seen_emb"):
        stored["columns"][name].update(table, shared=stored["columns"][name].pop("table"))
    path.write_text(json.dumps(stored), "utf-8")
    assert run_record.changes_since(str(path.parent), spec) == []
    assert run_record.kept_spec(str(path.parent)).to_dict() == spec.to_dict()
    # A user's file of another name is not a stored one.
    with pytest.raises(feature_specs.SpecError, match="shared is no longer an option"):
        feature_specs.load(shutil.copy(path, tmp_path / "mine.json"))
    assert feature_specs.load(path).to_dict() == spec.to_dict()


def test_a_stored_spec_of_an_earlier_release_names_days_instead_of_periods(tmp_path):
    rate = {"min": 0.01, "otherwise": "leave_out"}
    wanted = feature_specs.parse({
        "features": {"item": {"dtype": "string"}},
        "columns": {"item_id": {"hash_bucket": "item", "size": 9}},
        "groups": {"wide": ["item_id"]},
        "labels": {"click": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}},
        "retraining": {"label_rate": {"click": rate}, "period_rows": {"max_ratio": 3.0}},
    }).to_dict()  # fmt: skip
    old = json.loads(json.dumps(wanted))
    section = old["retraining"]
    section["day_rows"] = section.pop("period_rows")
    section["label_rate"]["click"]["otherwise"] = "leave_out_day"
    path = tmp_path / "feature_spec" / "spec.json"
    path.parent.mkdir()
    path.write_text(json.dumps(old), "utf-8")
    assert feature_specs.load(path).to_dict() == wanted
    with pytest.raises(feature_specs.SpecError) as error:
        feature_specs.load(shutil.copy(path, tmp_path / "mine.json"))
    assert "retraining.day_rows: unknown key. Did you mean 'period_rows'?" in str(error.value)
    assert "got 'leave_out_day', expected 'stop', 'warn' or 'leave_out'. Did you mean" in str(
        error.value
    )
