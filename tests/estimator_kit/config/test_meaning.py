"""What settings change, as they declare it, and what a cycle and a search make of it."""

from __future__ import annotations

import sys

import pydantic
import pytest

import estimator_kit as ek
from estimator_kit.config.areas import AllSettings
from estimator_kit.config.areas.base import Settings, changes_of, setting
from estimator_kit.config.modes import Tune, settings_of
from estimator_kit.retraining import lineage
from estimator_kit.tuning import definition
from feature_specs.meaning import ASPECTS, Changes, changes
from feature_specs.parser import parser
from input_pipelines.record_files import writing

# What counts for a model and its metrics.
COUNTS = {"rows", "values", "weights", "outputs", "training", "scores"}

# Values for settings whose type does not show another one. They need not be valid together.
BY_HAND = {
    "keep_negatives": "click=0.5",
    "mixed_precision": "bfloat16", "model": "linear", "model_params": {"dropout": 0.5},
    "warm_start_mode": "all", "strategy": "mirrored", "corrupt_data_policy": "skip_record",
}  # fmt: skip


def test_every_setting_declares_what_it_changes():
    for name in AllSettings.model_fields:
        found = changes_of(AllSettings, name)
        assert found.aspects <= set(ASPECTS), name
    assert changes_of(AllSettings, "seed") == Changes(frozenset({"records", "rows", "training"}))
    assert changes_of(AllSettings, "train_files") == Changes(frozenset({"rows"}), named=True)
    assert changes_of(AllSettings, "report") == Changes(frozenset())


def test_a_setting_without_a_declaration_fails_where_it_is_declared():
    with pytest.raises(TypeError, match="changes"):
        setting(None, "A new setting.")
    with pytest.raises(ValueError, match="changes='row': expected 'nothing' or one or more of "):
        setting(None, "A new setting.", changes="row")
    with pytest.raises(ValueError, match="changes=''"):
        changes("")
    assert changes("", named=True) == Changes(frozenset(), named=True)

    class Bare(Settings):
        new: int = pydantic.Field(1)

    with pytest.raises(AssertionError, match="new is not declared with `setting`"):
        changes_of(Bare, "new")


def other_value(name, value):
    """Another value of a setting, by its type."""
    if name in BY_HAND:
        return BY_HAND[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, tuple):
        return (*value, "other")
    return "other" if isinstance(value, str) else 7


@pytest.mark.parametrize("name", sorted(settings_of("retrain")))
def test_a_cycle_is_the_same_until_a_setting_changes_that_counts(name):
    config = ek.ExperimentConfig(
        mode="retrain", spec="s.yaml", model_dir="m", train_files=("d/dt=*/*.tfrecord",),
        window="2d", model="dnn", max_steps=5,
    )  # fmt: skip
    changed = config.model_copy(update={name: other_value(name, getattr(config, name))})
    same = lineage.identity(changed, "spec", "days") == lineage.identity(config, "spec", "days")
    declared = changes_of(AllSettings, name)
    # What other named settings point at is in the fingerprint of the spec and in the days.
    resolved = name in ("model", "model_params", "corrupt_data_policy", "min_count")
    assert same == (not resolved and (declared.named or not declared.aspects & COUNTS))


def test_a_cycle_does_not_count_how_it_is_told_or_how_a_parameter_is_spelled():
    config = ek.ExperimentConfig(
        mode="retrain", spec="s.yaml", model_dir="m", train_files=("d/dt=*/*.tfrecord",),
        window="2d", model="dnn", max_steps=5,
    )  # fmt: skip
    first = lineage.identity(config, "spec", "days")
    quiet = {"report": "off", "profile": True, "exporters": ("best_k:9",), "threads": 2}
    assert lineage.identity(config.model_copy(update=quiet), "spec", "days") == first
    default = {"model_params": {"activation": "relu"}}
    assert lineage.identity(config.model_copy(update=default), "spec", "days") == first
    for part in (("other", "days"), ("spec", "other"), ("spec", "days", "1 files (a)")):
        assert lineage.identity(config, *part) != first


@pytest.fixture
def search(tmp_path, document):
    """A function: the definition of a search over two files, with other settings."""
    for name in "ab":
        writing.write_examples(f"{tmp_path}/{name}.tfrecord", [{"click": 1}])
    spec = parser.parse(document)

    def define(of=spec, models=(), **values):
        config = ek.ExperimentConfig(
            mode="tune", spec="s.yaml", model_dir="m", search="s", max_steps=5,
            train_files=(f"{tmp_path}/[a]*.tfrecord",), eval_files=(f"{tmp_path}/b.tfrecord",),
        )  # fmt: skip
        flags = definition.definition(Tune.of(config.model_copy(update=values)), of, models)
        return {"search": {"parameters": {}}, "flags": flags}

    return define


@pytest.mark.parametrize(
    "name",
    sorted(settings_of("tune") - {"train_files", "train_days", "train_mix", "eval_files",
                                  "eval_days"}),
)  # fmt: skip
def test_a_search_goes_on_until_a_setting_changes_that_counts(search, name):
    value = other_value(name, AllSettings.model_fields[name].default)
    told = definition.changes(search(), search(**{name: value}))
    declared = changes_of(AllSettings, name)
    counts = not declared.named and declared.aspects & (COUNTS - {"outputs"})
    resolved = name in ("model", "model_params", "corrupt_data_policy", "warm_start_from")
    assert [line.split(":")[0] for line in told] == ([f"--{name}"] if counts or resolved else [])


def test_a_search_compares_what_names_point_at(search, tmp_path, document):
    before = search()
    spelled = (f"{tmp_path}/../{tmp_path.name}/a.tfrecord",)
    assert definition.changes(before, search(train_files=spelled)) == []
    document["objectives"]["click"]["loss_weight"] = 2.0
    found = definition.changes(before, search(of=parser.parse(document)))
    assert [line.split(":")[0] for line in found] == ["meaning of --spec"]
    writing.write_examples(f"{tmp_path}/aa.tfrecord", [{"click": 1}])  # One more day.
    (line,) = definition.changes(before, search())
    assert line.startswith('files of --train_files: was "1 files (')
    old = {"search": {"parameters": {}}, "flags": {"max_steps": 5, "train_files": ["a*"]}}
    assert definition.changes(old, search()) == []


@pytest.fixture
def own_model(tmp_path, monkeypatch):
    """(the name of a user's model, a module that it imports)."""
    (tmp_path / "own_tower.py").write_text(
        "import estimator_kit as ek\nimport own_layers\n\n\nclass Tower(ek.ModelFn):\n"
        "    def logits(self, features, mode):\n        return own_layers.top(self, features)\n"
    )
    (tmp_path / "own_layers.py").write_text("def top(model, features):\n    return features\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "own_tower:Tower", tmp_path / "own_layers.py"
    for name in ("own_tower", "own_layers"):
        sys.modules.pop(name, None)


def test_a_cycle_and_a_search_know_the_modules_that_a_model_imports(search, own_model):
    model, layers = own_model
    config = ek.ExperimentConfig(
        mode="retrain", spec="s.yaml", model_dir="m", train_files=("d/dt=*/*.tfrecord",),
        window="2d", model=model, max_steps=5,
    )  # fmt: skip
    cycle, before = lineage.identity(config, "spec", "days"), search(models=(model, "dnn"))
    assert "code of --model" not in search(models=("dnn",))["flags"]
    assert lineage.identity(config, "spec", "days") == cycle
    assert definition.changes(before, search(models=("dnn", model, model))) == []
    was = before["flags"]["code of --model"]
    layers.write_text(layers.read_text().replace("return features", "return -features"))
    assert lineage.identity(config, "spec", "days") != cycle
    now = search(models=(model,))
    (line,) = definition.changes(before, now)
    is_now = now["flags"]["code of --model"]
    assert line == f'code of --model: was "{was}", is "{is_now}"' and was != is_now
    del before["flags"]["code of --model"]  # As the version before stored it.
    assert definition.changes(before, now) == []


def test_a_search_knows_the_files_of_pretrained_vectors(search, tmp_path, document):
    document["columns"]["city_emb"] = {
        "embedding": "city", "dimension": 2, "pretrained": {"file": "cities.txt"}
    }  # fmt: skip
    document["groups"]["deep"].append("city_emb")
    spec = parser.parse(document, directory=tmp_path)
    (tmp_path / "cities.txt").write_text("oslo 3 4\n")
    assert "files of pretrained" not in search()["flags"]
    before = search(of=spec)
    assert definition.changes(before, search(of=spec)) == []
    assert definition.changes(search(), before)[0].startswith("meaning of --spec: ")
    (tmp_path / "cities.txt").write_text("oslo 3 4\nlima 1 1\n")
    (line,) = definition.changes(before, search(of=spec))
    assert line.startswith('files of pretrained: was "1 files (')
