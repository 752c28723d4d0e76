"""Each setting, field of a spec, and parameter of a built-in model changes what it declares.

Two configs that differ in one setting are compared up to the first step; see `observed_settings`.
Two specs that differ in one field are compared on the way of a few rows; see `observed`. What the
field declares must differ in one of its cases. What it does not declare may differ only if it
follows from what it declares.
"""

from __future__ import annotations

import json
import pathlib

import pytest

import feature_specs
from estimator_kit.config.areas import AllSettings
from estimator_kit.config.areas.base import changes_of as of_setting
from estimator_kit.model.model_params import changes_of
from estimator_kit.models import MODELS
from feature_specs.entry import Declared
from feature_specs.heads import HEADS
from feature_specs.meaning import ASPECTS
from tests.conformance import declared, declared_settings, table
from tests.conformance.observed import ENDS, WAY, Observed, example, same
from tests.conformance.observed_settings import OBSERVED
from tests.conformance.test_parameters import OTHER

FIELDS = [(kind, field) for kind, entry in declared.ENTRIES.items() for field in entry.model_fields]

# Aspects that are declared, and that these cases cannot show: {field: {aspect: why}}.
_OWNER = "the same numbers now belong to another label, class or quantile"
_CYCLE = "only a cycle of --mode=retrain reads it"
NOT_SEEN_HERE: dict[str, dict[str, str]] = {
    "label.vocabulary": {"weights": _OWNER},
    **{f"{head}.label": {"weights": _OWNER, "outputs": _OWNER} for head in HEADS},
    **{
        f"{head}.head": {"weights": _OWNER}
        for head in ("binary", "multi_label", "cosine", "ranking")
    },
    "growing.buckets": {"values": "of 2**63 hashes, only the last few buckets have another key"},
    "retraining.vocabularies": {"values": _CYCLE},
    "tables.csv_thousands": {"records": "without it, a table with such numbers is refused"},
}


# Settings that are not changed here, and why.
SETTINGS_WITHOUT_CASE = {
    "mode": "each mode is compared with itself",
    "beam_options": "needs Beam",
    "data_service": "needs the servers of a data service",
    "launch_local": "only the processes that it starts read rows",
    "export_dir": "needs an export",
    "predict_dir": "needs an export",
    "processes": "needs an export",
    "top_k": "needs an export",
}
# Aspects that are declared, and that no case of a setting can show.
SETTINGS_NOT_SEEN: dict[str, dict[str, str]] = {
    "input_version": dict.fromkeys(
        ("rows", "scores"), "the user's promise that a function gives other rows"
    ),
    "test_files": {"scores": "only the end of a search reads it"},
    **{
        name: {"limits": "only a transformation of an export reads it"}
        for name in ("transform_tolerance", "index_recall", "transform_max_loss_increase")
    },
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A function: what a side of a case makes, once for equal sides."""
    folder, kept = tmp_path_factory.mktemp("declared"), {}
    (folder / "words.txt").write_text("rome\noslo\nlima\n")
    (folder / "more.txt").write_text("oslo\nlima\nrome\n")
    (folder / "vectors.txt").write_text("rome 1 2 3\n")

    def make(side):
        key = json.dumps([side.document, repr(side.table), side.model, side.params])
        if key not in kept:
            kept[key] = Observed(side.document, side.table, folder, side.model, side.params)
        return kept[key]

    return make


def compare(before, after, compared, aspects, missing, what):
    """Fails if an aspect differs that is not declared; `missing` loses what was seen."""
    upstream = False
    for aspect in compared:
        is_declared = aspect in aspects
        if aspect not in missing and (upstream or (is_declared and aspect in ENDS)):
            continue
        differs = not same(getattr(before, aspect), getattr(after, aspect))
        if differs and is_declared:
            missing.discard(aspect)
            upstream |= aspect in WAY
        assert is_declared or upstream or not differs, f"{what} changes {aspect}"


def observable(kind):
    """The aspects that can be compared here. No model reads the sections after the objectives."""
    sections = kind in ("drift", "retraining", "monitoring", "tables")
    return WAY[:3] if sections else (*WAY, *ENDS)


def changed(before, after):
    """(aspects of all fields that differ between two specs, and whether each is named)."""
    found = []
    for section in ("features", "columns", "labels", "objectives", "filter"):
        old, new = (getattr(spec, section) for spec in (before, after))
        if section == "filter":
            old, new = dict(enumerate(old)), dict(enumerate(new))
        for name in {*old, *new}:
            found += differing(old.get(name), new.get(name))
    for section in ("drift", "retraining", "monitoring", "tables"):
        found += differing(getattr(before, section), getattr(after, section))
    if before.groups != after.groups:
        found.append((frozenset({"values", "weights"}), False))
    return found


def differing(old, new):
    values = [dict(entry) if entry is not None else {} for entry in (old, new)]
    for kind in {type(entry) for entry in (old, new) if isinstance(entry, Declared)}:
        for field in kind.model_fields:
            if values[0].get(field, ...) != values[1].get(field, ...):
                yield kind.changes_of(field).aspects, kind.changes_of(field).named
    if getattr(old, "delayed", False) != getattr(new, "delayed", False):
        yield frozenset({"values", "weights"}), False  # The label has a time, with its own logit.


def test_the_tables_have_only_settings_and_fields():
    hand = {key.rpartition(".")[2] for key in declared_settings.by_hand(pathlib.Path())}
    assert {*hand, *SETTINGS_WITHOUT_CASE, *SETTINGS_NOT_SEEN} <= AllSettings.model_fields.keys()
    for name, why in SETTINGS_NOT_SEEN.items():
        assert why.keys() <= of_setting(AllSettings, name).aspects, name
    entries = declared.ENTRIES
    written = {f"{kind}.{entries[kind].model_fields[field].alias or field}"
               for kind, field in FIELDS}  # fmt: skip
    assert declared.BY_HAND.keys() <= written
    assert {*declared.WITHOUT_CASE, *NOT_SEEN_HERE} <= {".".join(place) for place in FIELDS}
    for place, why in NOT_SEEN_HERE.items():
        kind, field = place.split(".")
        assert why.keys() <= entries[kind].changes_of(field).aspects, place


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=[".".join(place) for place in FIELDS])
def test_a_field_changes_what_it_declares(kind, field, made):
    place, entry = f"{kind}.{field}", declared.ENTRIES[kind]
    if place in declared.WITHOUT_CASE:
        return
    compared = observable(kind)
    missing = {*entry.changes_of(field).aspects} & {*compared}
    missing -= NOT_SEEN_HERE.get(place, {}).keys()
    number = 0
    for sides in declared.cases(kind, field):
        number += 1
        before, after = map(made, sides)
        fields = changed(before.spec, after.spec)
        aspects = {aspect for found, _ in fields for aspect in found}
        assert entry.changes_of(field).aspects <= aspects
        check_meaning(before, after, fields)
        # Labels of two shapes need two tables, which then have two sets of records.
        parts = compared if sides[0].table == sides[1].table else compared[1:]
        compare(before, after, parts, aspects, missing, place)
    assert number, f"{place}: its type shows no other valid value. Add one to `declared.BY_HAND`."
    assert not missing, f"{place} declares {missing}, which no case shows"


def parameters():
    """(model, parameter): each parameter once, with the first model that has it."""
    found = {}
    for model in ("dnn", "wide_deep", *MODELS):
        for kind in MODELS[model].Params.__mro__:
            for name in vars(kind).get("__annotations__", {}):
                if name in MODELS[model].Params.model_fields:
                    found.setdefault((kind, name), (model, name))
    return list(dict.fromkeys(found.values()))


# Parameters with a partner, or to which another value of `OTHER` gives nothing to do.
PARTNERS = {"batch_norm_momentum": {"batch_norm": True}}
OTHER_HERE = {
    "freeze": [".*kernel"], "forward_features": ["user"], "optimizer": "adam", "warm_up_steps": 9,
    "own_experts": 3, "pooling": "mean", "calibrator": 1e4, "dien.recurrent_units": 3,
    "learning_rate": 0.003, "gru4rec.learning_rate": 0.002, "sasrec.heads": 5,
    "sasrec.feed_forward": 6,
}  # fmt: skip
PARAMETERS_NOT_SEEN = {
    "moving_average": {"weights": "predictions read the averages of a checkpoint"},
    "user_id": {"scores": "only an evaluation with a catalogue reads it"},
}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("model", "name"), parameters(), ids=[".".join(place) for place in parameters()]
)
def test_a_parameter_changes_what_it_declares(model, name, made):
    case, kind = table.MODEL_CASES[model], MODELS[model].Params
    heads = case.objectives or {"multi_class": "multi_class", "quantile": "quantile"}
    whole = feature_specs.parse(table.document(heads, tuple(table.DOCUMENT["groups"])))
    groups = MODELS[model](whole, case.params).groups()
    document = {**table.document(heads, groups), "raw": []}
    records = [example(row) for row in table.make_rows(12, heads)]
    given = {"hidden_units": [8, 4]} if model in ("dnn", "wide_deep") else case.params
    given = {**given, **PARTNERS.get(name, {})}
    if name == "forward_features":
        document["raw"] = ["user"]
    if name in OTHER:
        value = OTHER_HERE.get(f"{model}.{name}", OTHER_HERE.get(name, OTHER[name]))
        other = declared.Side(document, records, model, {**given, name: value})
    else:  # The name of a group: its columns count, and not its name.
        old = given.get(name, kind.model_fields[name].default)
        if old is None:
            return  # `autoint` reads no `deep_group` by default. Other models show it.
        renamed = {**document["groups"], "renamed": document["groups"][old]}
        del renamed[old]
        other = declared.Side(
            {**document, "groups": renamed}, records, model, {**given, name: "renamed"}
        )
    before, after = made(declared.Side(document, records, model, given)), made(other)
    aspects = changes_of(kind, name)
    missing = {*aspects} - PARAMETERS_NOT_SEEN.get(name, {}).keys()
    compare(before, after, (*WAY[3:], *ENDS), aspects, missing, f"{model}.{name}")
    assert not missing, f"{model}.{name} declares {missing}, which this case does not show"


def check_meaning(before, after, fields):
    """The meaning of a spec differs in the aspects of what differs, and its document is whole."""
    for observed in (before, after):
        whole = observed.spec.to_dict(defaults=True)
        again = feature_specs.parse(whole, directory=observed.spec.directory)
        assert again == observed.spec
    counted = {aspect for aspects, named in fields if not named for aspect in aspects}
    named = {aspect for aspects, named in fields if named for aspect in aspects}
    for aspect in ASPECTS:
        differs = before.spec.meaning([aspect]) != after.spec.meaning([aspect])
        assert differs == (aspect in counted) or aspect in named, aspect


@pytest.fixture(scope="module")
def configs(tmp_path_factory):
    """(folder, a function: what the config with some values makes)."""
    folder, memo = tmp_path_factory.mktemp("settings"), {}
    declared_settings.write_files(folder)
    return folder, lambda values: OBSERVED[values["mode"]](values, memo)


@pytest.mark.nightly
@pytest.mark.parametrize("name", AllSettings.model_fields)
def test_a_setting_changes_what_it_declares(name, configs):
    folder, make = configs
    aspects = of_setting(AllSettings, name).aspects
    missing = {*aspects} - SETTINGS_NOT_SEEN.get(name, {}).keys()
    if name in SETTINGS_WITHOUT_CASE:
        return
    # Modes that are not observed only show or serve what others have made.
    for mode in declared_settings.modes_of(name, folder):
        number = 0
        for sides in declared_settings.cases(mode, name, folder):
            number += 1
            before, after = map(make, sides)
            for key in {*sides[0], *sides[1]}:
                if sides[0].get(key, ...) != sides[1].get(key, ...):
                    assert of_setting(AllSettings, key).aspects <= aspects, key
            parts = before.aspects if before.accepted and after.accepted else ("limits",)
            compare(before, after, parts, aspects, missing, f"{mode}: {name}")
        assert number, f"{name}: its type shows no other value. Add one to `by_hand`."
    assert not missing, f"{name} declares {missing}, which no case shows"
