"""Valid specs: the specs of the catalog, and the properties and methods of a spec."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import pydantic
import pytest

import feature_specs
from feature_specs import heads, kinds
from feature_specs.feature import Feature
from feature_specs.label import Label
from feature_specs.parser import parser
from feature_specs.parser.yaml_reader import read_text

pytestmark = pytest.mark.no_tensorflow

CATALOG = sorted(pathlib.Path(feature_specs.__file__).parent.glob("catalog/*.yaml"))


def again(spec):
    """The spec that `parse` makes from `to_dict`."""
    document = json.loads(json.dumps(spec.to_dict()))
    return feature_specs.parse(document, directory=spec.directory, source=spec.source)


# --- The catalog ----------------------------------------------------------------------------------


def test_the_catalog_holds_the_specs_that_the_documentation_names():
    assert {"ads", "adult", "bike_sharing"} <= {path.stem for path in CATALOG}


@pytest.mark.parametrize("path", CATALOG, ids=lambda path: path.stem)
def test_every_spec_of_the_catalog_loads(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # A spec must not depend on the working directory.
    spec = feature_specs.load(path)
    assert spec.source == str(path)
    assert spec.directory == path.parent
    assert spec.objectives and spec.groups
    assert again(spec) == spec


@pytest.mark.parametrize("path", CATALOG, ids=lambda path: path.stem)
def test_a_json_file_gives_the_same_spec_as_the_yaml_file(path, tmp_path):
    document = read_text(path.read_text(encoding="utf-8"), str(path))[0]
    as_json = tmp_path / "spec.json"
    as_json.write_text(json.dumps(document, indent=2), encoding="utf-8")
    from_json = feature_specs.load(as_json)
    from_yaml = feature_specs.load(path)
    assert dataclasses.replace(from_json, source="", directory=pathlib.Path()) == (
        dataclasses.replace(from_yaml, source="", directory=pathlib.Path())
    )
    assert from_json.fingerprint() == from_yaml.fingerprint()


def test_the_adult_spec():
    spec = feature_specs.load(next(path for path in CATALOG if path.stem == "adult"))
    assert len(spec.features) == 13
    assert spec.labels["income"].vocabulary == ("<=50K", ">50K")
    # The vocabulary of `education` has 16 words and one bucket for other words.
    assert spec.size_of("education") == 17
    assert list(spec.features_of("age_x_education")) == ["age", "education"]
    assert spec.used_features() == tuple(spec.features)


# --- What a spec is -------------------------------------------------------------------------------

DOCUMENT = """
features:
  age: {dtype: int64, default: -1}
  price: {dtype: float32, default: 0}
  pixels: {dtype: float32, shape: [3]}
  city: {dtype: string}
  tags: {dtype: string, shape: variable}
  confidence: {dtype: float32, shape: []}
  truth: {dtype: float32}
  note: {dtype: string}
columns:
  tag: {hash_bucket: tags, size: 100}
  price: {numeric: price, normalizer: [log1p, {clip: {min: 0, max: 5}}]}
  pixels: {numeric: pixels, normalizer: {zscore: {mean: 1, stddev: 2}}}
  price_bucket: {bucketized: price, boundaries: [0.5, 1, 2]}
  age: {identity: age, size: 120, default_id: 0}
  age_bucket: {bucketized: age, boundaries: [30]}
  town: {vocabulary: city, list: [rome, oslo], oov_buckets: 3}
  town_x_age: {crossed: [town, age_bucket], size: 50}
  town_x_tag: {crossed: [city, tags], size: 60, hash_key: 7}
  tag_emb: {embedding: tag, dimension: 4, combiner: sum, max_norm: 0.5}
  town_hot: {indicator: town}
groups:
  wide: [town_x_tag, town_x_age, age]
  deep: [price, pixels, price_bucket, tag_emb, town_hot]
labels:
  click: {dtype: int64, weight: confidence, true_probability: truth}
  kind: {dtype: string, vocabulary: [a, b, c]}
  amount: {dtype: float32, weight: click}
objectives:
  click: {head: binary}
  sort: {head: multi_class, num_classes: 3, label: kind, loss_weight: 0}
  amount: {head: regression, loss_weight: 0.5}
ignored: [note]
"""


@pytest.fixture
def spec():
    return feature_specs.parse(read_text(DOCUMENT, "x")[0], directory="/specs", source="x.yaml")


def test_every_entry_is_read(spec):
    assert dict(spec.features) == {
        "age": Feature(dtype="int64", default=-1),
        "price": Feature(dtype="float32", default=0),
        "pixels": Feature(dtype="float32", shape=(3,)),
        "city": Feature(dtype="string"),
        "tags": Feature(dtype="string", shape="variable"),
        "confidence": Feature(dtype="float32"),
        "truth": Feature(dtype="float32"),
        "note": Feature(dtype="string"),
    }
    assert spec.columns["price"] == kinds.Numeric(
        numeric="price", normalizer=["log1p", {"clip": {"min": 0, "max": 5}}]
    )
    clip = spec.columns["price"].normalizer[1].clip
    assert (clip.min, clip.max) == (0.0, 5.0)
    zscore = spec.columns["pixels"].normalizer[0].zscore
    assert (zscore.mean, zscore.stddev) == (1.0, 2.0)
    assert spec.columns["price_bucket"].boundaries == (0.5, 1.0, 2.0)
    assert spec.columns["town"].words == ("rome", "oslo")
    assert (spec.columns["town"].oov_buckets, spec.columns["town"].default_id) == (3, -1)
    assert spec.columns["town_x_tag"].sources == ("city", "tags")
    assert spec.columns["town_x_tag"].hash_key == 7
    assert spec.columns["tag_emb"] == kinds.Embedding(
        embedding="tag", dimension=4, combiner="sum", max_norm=0.5
    )
    assert dict(spec.groups) == {
        "wide": ("town_x_tag", "town_x_age", "age"),
        "deep": ("price", "pixels", "price_bucket", "tag_emb", "town_hot"),
    }
    assert spec.labels["kind"] == Label(dtype="string", vocabulary=("a", "b", "c"))
    assert spec.objectives["amount"] == heads.Regression(head="regression", loss_weight=0.5)
    assert spec.ignored == ("note",)
    assert (spec.directory, spec.source) == (pathlib.Path("/specs"), "x.yaml")


def test_nothing_of_a_spec_can_be_set(spec):
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.source = "y.yaml"
    for entry, field in (
        (spec.features["age"], "dtype"),
        (spec.columns["tag"], "size"),
        (spec.columns["price"].normalizer[1].clip, "max"),
        (spec.labels["click"], "weight"),
        (spec.objectives["click"], "loss_weight"),
    ):
        with pytest.raises(pydantic.ValidationError, match="Instance is frozen"):
            setattr(entry, field, None)


def test_shapes_of_features(spec):
    features = spec.features
    assert [name for name in features if features[name].variable] == ["tags"]
    assert [name for name in features if not features[name].single] == ["pixels", "tags"]
    assert [name for name in features if not features[name].is_required] == ["age", "price", "tags"]
    assert (features["pixels"].length, features["city"].length) == (3, 1)


def test_labels_and_classes(spec):
    assert [spec.label_of(name) for name in spec.objectives] == ["click", "kind", "amount"]
    assert [spec.label_classes(name) for name in spec.labels] == [2, 3, None]
    assert [o.logits_dimension for o in spec.objectives.values()] == [1, 3, 1]


def test_what_a_column_is_made_from(spec):
    assert spec.category_of("tag_emb") == ("tag", spec.columns["tag"])
    assert spec.category_of("town_hot") == ("town", spec.columns["town"])
    assert spec.category_of("age") == ("age", spec.columns["age"])
    assert spec.columns["price_bucket"].numeric(spec) == spec.columns["price"]
    # The column `age` is an identity column, so a bucketized `age` reads the feature `age`.
    assert spec.columns["age_bucket"].numeric(spec) == kinds.Numeric(numeric="age")
    # The identity column is therefore not a source of it.
    assert "age_bucket" not in spec.made_from("age")
    expected = {
        "price": ["price"],
        "price_bucket": ["price"],
        "age_bucket": ["age"],
        "town": ["city"],
        "tag_emb": ["tags"],
        "town_hot": ["city"],
        "town_x_age": ["city", "age"],
        "town_x_tag": ["city", "tags"],
    }
    assert {name: list(spec.features_of(name)) for name in expected} == expected


def test_sizes(spec):
    categories = [name for name, column in spec.columns.items() if column.categorical]
    assert {name: spec.size_of(name) for name in categories} == {
        "tag": 100,
        "price_bucket": 4,
        "age": 120,
        "age_bucket": 2,
        "town": 5,
        "town_x_age": 50,
        "town_x_tag": 60,
    }


def test_what_the_groups_use_is_in_the_order_of_the_document(spec):
    assert spec.used_columns() == (
        "price", "pixels", "price_bucket", "age", "town_x_age", "town_x_tag", "tag_emb", "town_hot",
    )  # fmt: skip
    assert spec.used_features() == ("age", "price", "pixels", "city", "tags")


# --- Documents and fingerprints -------------------------------------------------------------------


def test_to_dict_is_the_document(document):
    document["columns"]["price"]["normalizer"] = [{"log1p": True}]
    assert feature_specs.parse(document).to_dict() == {**document, "ignored": []}


def test_a_spec_reads_back_what_it_writes(spec):
    assert again(spec) == spec
    assert again(spec).fingerprint() == spec.fingerprint()
    complete = json.loads(json.dumps(spec.to_dict(defaults=True)))
    assert parser.parse(complete, directory=str(spec.directory), source=spec.source) == spec


def fingerprint(text, **where):
    return parser.parse(read_text(text, "x")[0], **where).fingerprint()


def reordered(text):
    """The document with the entries of every mapping in reverse order, except the objectives: their
    order decides the order of the logits."""

    def turned(value):
        if isinstance(value, dict):
            return {key: turned(item) for key, item in reversed(value.items())}
        return value

    document = read_text(text, "x")[0]
    return json.dumps({**turned(document), "objectives": document["objectives"]})


@pytest.mark.parametrize(
    "text",
    [
        f"# A comment.\n{DOCUMENT}",
        DOCUMENT.replace("[30]", "[30.0]"),
        reordered(DOCUMENT),
        DOCUMENT.replace("normalizer: [log1p,", "normalizer: [{log1p: true},"),
    ],
    ids=["comment", "number", "order-of-keys", "log1p"],
)
def test_the_fingerprint_does_not_change_with_the_form(text):
    assert fingerprint(text, directory="/a", source="a") == fingerprint(DOCUMENT)


@pytest.mark.parametrize(
    "old, new",
    [
        ("size: 100}", "size: 101}"),
        ("[rome, oslo]", "[oslo, rome]"),
        ("default: -1", "default: -2"),
        ("loss_weight: 0.5", "loss_weight: 0.6"),
        ("[town_x_tag, town_x_age, age]", "[town_x_age, town_x_tag, age]"),
        ("tag_emb", "tag_vector"),
    ],
)
def test_the_fingerprint_changes_with_the_meaning(old, new):
    assert old in DOCUMENT
    assert fingerprint(DOCUMENT.replace(old, new)) != fingerprint(DOCUMENT)
