"""The client and `feature_specs` read a spec alike; the client refuses what it does not know."""

from __future__ import annotations

import dataclasses
import json
import random

import pytest

import feature_specs
from estimator_kit.client import Rows, record_spec
from feature_specs.kinds import COLUMN_KINDS
from feature_specs.spec import Feature
from tests.conftest import DOCUMENT, ROOT

pytestmark = pytest.mark.no_tensorflow

LIST = {"shape": "variable"}
# Every kind of column and every form of feature. Some columns have the name of a feature.
EVERYTHING = {
    "features": {
        "price": {"dtype": "float32", "default": 0.0},
        "age": {"dtype": "float32", "shape": [1], "default": 0.0},
        "size": {"dtype": "float32", "shape": [2, 2]},
        "pixels": {"dtype": "string", "decode": {"raw": {"dtype": "uint8", "shape": [3]}}},
        "hour": {"dtype": "int64", "required": True},
        "user": {"dtype": "string", "default": ""},
        "city": {"dtype": "string"},
        "tags": {"dtype": "string", **LIST},
        "weights": {"dtype": "float32", **LIST},
        "words": {"dtype": "string", "row_lengths": "word_counts", **LIST},
        "word_counts": {"dtype": "int64", **LIST},
        "income": {"dtype": "int64", "default": -1},
        "seen_at": {"dtype": "string", "default": ""},
        "times": {"dtype": "float32", "feature_list": True},
        "clicks": {"dtype": "string", "feature_list": True, "required": True},
        "looks": {"dtype": "string", "feature_list": True, **LIST},
    },
    "columns": {
        "price": {"numeric": "price", "normalizer": "log1p"},
        "size": {"numeric": "size"},
        "pixels": {"numeric": "pixels"},
        "price_range": {"bucketized": "price", "boundaries": [1.0, 5.0]},
        "age_raw": {"numeric": "age"},
        "age_range": {"bucketized": "age_raw", "boundaries": [1.0]},
        "income": {"numeric": "income", "missing": 7},
        "income_missing": {"is_missing": "income"},
        "seen_at": {"time": "seen_at", "part": "hour", "format": "%H:%M"},
        "hour": {"identity": "hour", "size": 24},
        "user": {"hash_bucket": "user", "size": 20},
        "city": {"vocabulary": "city", "list": ["rome", "oslo"]},
        "tag": {"hash_bucket": "tags", "size": 10},
        "tag_weighted": {"weighted": "tag", "weight": "weights"},
        "cross": {"crossed": ["city", "tags", "price_range"], "size": 30},
        "steps": {"sequence_numeric": "times"},
        "click": {"hash_bucket": "clicks", "size": 8, "sequence": True},
        "look": {"hash_bucket": "looks", "size": 8},
        "look_list": {"ragged": "look"},
        "word": {"hash_bucket": "words", "size": 7},
        "words": {"ragged": "word"},
        "weight_list": {"ragged": "weights"},
        "user_emb": {"embedding": "user", "dimension": 4},
        "tag_emb": {"embedding": "tag_weighted", "dimension": 3},
        "click_emb": {"embedding": "click", "dimension": 2},
        "city_hot": {"indicator": "city"},
        "cross_hot": {"indicator": "cross"},
        "grown": {"growing": "city", "rows": 9},
        "grows": {"embedding": "grown", "dimension": 2},
    },
    "groups": {
        "wide": ["price_range", "age_range", "hour", "user", "city", "tag_weighted", "cross",
                 "seen_at"],
        "deep": ["price", "size", "pixels", "user_emb", "tag_emb", "city_hot", "cross_hot",
                 "grows", "income", "income_missing"],
        "steps": ["steps", "click_emb"],
        "lists": ["look_list", "words", "weight_list"],
    },
    "labels": {"buy": {"dtype": "int64"}},
    "objectives": {"buy": {"head": "binary"}},
}  # fmt: skip

ATTRIBUTES = ("dtype", "shape", "variable", "single", "nested", "feature_list", "is_required")


def check(spec):
    """The client and the kit read the same from the spec of an export."""
    read = record_spec.parse(json.loads(json.dumps(spec.to_dict())))
    assert read.used_features() == spec.used_features()
    assert read.sequence_examples == spec.sequence_examples
    assert read.labels == set(spec.labels)
    assert list(read.features) == list(spec.features)
    for name, feature in spec.features.items():
        for attribute in ATTRIBUTES:
            found = getattr(read.features[name], attribute)
            assert found == getattr(feature, attribute), (name, attribute)
        if not feature.variable:
            assert read.features[name].length == feature.length


def test_every_kind_of_column_and_any_of_them():
    spec = feature_specs.parse(EVERYTHING)
    assert {column.kind for column in spec.columns.values()} == set(COLUMN_KINDS)
    assert set(record_spec.KINDS) == set(COLUMN_KINDS)
    check(spec)
    rng = random.Random(7)
    chosen = [(name,) for name in spec.columns]
    chosen += [tuple(rng.sample(list(spec.columns), rng.randint(2, 6))) for _ in range(200)]
    for columns in chosen:
        # Only the parser checks which columns a group may combine.
        raw = tuple(rng.sample(list(spec.features), rng.randint(0, 3)))
        check(dataclasses.replace(spec, groups={"some": columns}, raw=raw))


def test_records_that_are_examples_and_the_specs_of_the_kit():
    check(feature_specs.parse(DOCUMENT))
    for path in sorted((ROOT / "feature_specs" / "catalog").glob("*.yaml")):
        check(feature_specs.load(path))


def test_the_fields_of_features_are_those_that_the_client_knows():
    assert set(record_spec._FEATURE_KEYS) == set(Feature.model_fields)
    assert feature_specs.parser.parser.VERSION == record_spec.VERSION


def test_rows_of_an_export_and_of_its_spec_alone(tmp_path):
    folder = tmp_path / "export" / "assets.extra" / "feature_spec"
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(json.dumps(DOCUMENT))
    (tmp_path / "spec.yaml").write_text(json.dumps(DOCUMENT))
    row = {"city": "rome", "price": 1, "tags": ["a"], "click": 1}
    places = (tmp_path / "export", folder / "spec.json", str(tmp_path / "spec.yaml"))
    first, second, third = (Rows.of_export(place).serialized([row]) for place in places)
    assert first == second == third
    assert len(first) == 1


@pytest.mark.parametrize(
    ("place", "entry", "message"),
    [
        (("features", "price", "weight"), 2, "features.price: unknown key 'weight'"),
        (("features", "price"), 5, "features.price: got 5, expected an object"),
        (("features", "price", "dtype"), "float64",
         "features.price.dtype: got 'float64', expected one of float32, int64, string"),
        (("features", "price", "shape"), [0],
         "features.price.shape: got [0], expected variable or a list of sizes"),
        (("columns", "price"), {"spline": "price"},
         "columns.price: got {'spline': 'price'}, expected one of the kinds numeric, "),
        (("columns", "price"), {"numeric": "prize"},
         "columns.price: got 'prize', expected a feature or a column"),
        (("groups", "wide"), ["prize"], "groups: got 'prize', expected a column"),
        (("labels",), [], "labels: got [], expected an object"),
        (("raw",), "city", "raw: got 'city', expected a list"),
        (("raw",), ["prize"], "raw: got 'prize', expected a feature"),
        (("version",), 2, "version: got 2, expected 1"),
    ],
)  # fmt: skip
def test_what_is_unknown(tmp_path, document, place, entry, message):
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = entry
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError) as error:
        Rows.of_export(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert str(error.value).endswith(
        ". Expected the spec.json that estimator-kit writes into an export. If the export is newer "
        "than this client, upgrade the client."
    )


def test_what_cannot_be_read(tmp_path):
    kept = tmp_path / "assets.extra" / "feature_spec" / "spec.json"
    with pytest.raises(ValueError) as error:
        Rows.of_export(tmp_path)
    assert str(error.value) == (
        f"{kept}: cannot be read: No such file or directory. Give the folder of an export, or the "
        "spec.json in its assets.extra/feature_spec."
    )
    path = tmp_path / "spec.json"
    for text, message in (("{", "is not JSON: "), ("[]", "got list, expected an object. ")):
        path.write_text(text)
        with pytest.raises(ValueError) as error:
            Rows.of_export(path)
        assert str(error.value).startswith(f"{path}: {message}")


def test_columns_that_are_made_from_each_other_end(document):
    document["columns"]["tag_emb"]["embedding"] = "tag_emb"
    assert "tags" in record_spec.parse(document).used_features()
