"""from_spec: a spec as a Schema, the parts that it lacks, and the spec that comes back from it."""

from __future__ import annotations

import copy

import pytest
from google.protobuf import text_format

import feature_specs
from feature_specs.parser.yaml_reader import read_text
from input_pipelines.prepare.analyze.first_spec import check_loads
from input_pipelines.prepare.metadata_schema import feature_reading, from_spec, to_spec
from tests.conftest import DOCUMENT, ROOT

SPEC = {
    "features": {
        "price": {"dtype": "float32", "default": 1.5},
        "pixels": {"dtype": "float32", "shape": [2, 3]},
        "city": {"dtype": "string"},
        "kind": {"dtype": "int64", "default": -1},
        "level": {"dtype": "int64"},
        "user": {"dtype": "string", "default": ""},
        "item": {"dtype": "int64"},
        "tags": {"dtype": "string", "shape": "variable"},
        "note": {"dtype": "string", "default": "none"},
        "importance": {"dtype": "float32"},
    },
    "columns": {
        "price": {"numeric": "price", "normalizer": "log1p"},
        "pixels": {"numeric": "pixels"},
        "city": {"vocabulary": "city", "list": ["rome", "oslo"], "oov_buckets": 2},
        "kind": {"identity": "kind", "size": 3},
        "level": {"identity": "level", "size": 9, "default_id": 0},
        "user": {"hash_bucket": "user", "size": 20},
        "item": {"hash_bucket": "item", "size": 30},
        "tag": {"vocabulary": "tags", "list": ["a", "b"]},
        "city_hot": {"indicator": "city"},
    },
    "groups": {
        "wide": ["price", "city", "kind", "level", "user", "item", "tag"],
        "deep": ["pixels", "city_hot"],
    },
    "labels": {
        "click": {"dtype": "int64", "weight": "importance"},
        "stars": {"dtype": "int64"},
        "color": {"dtype": "string", "vocabulary": ["r", "g", "b"]},
        "spent": {"dtype": "float32"},
        "liked": {"dtype": "float32"},
    },
    "objectives": {
        "click": {"head": "binary"},
        "stars": {"head": "multi_class", "num_classes": 5},
        "color": {"head": "multi_class", "num_classes": 3},
        "spent": {"head": "regression", "loss_weight": 0.5},
        "liked": {"head": "binary"},
    },
    "ignored": ["note"],
    "drift": {
        "default": {"l_infinity": {"warn": 0.1, "stop": 0.25}},
        "features": {"price": {"jensen_shannon": {"stop": 0.5}, "missing": {"stop": 0.125}}},
        "labels": {"click": {"l_infinity": {"stop": 0.0625}}, "stars": {"l_infinity": {}}},
    },
}


def exported(document, **kwargs):
    """The message in the text, read with the package's proto, and what it does not contain."""
    text, lost = from_spec.text(feature_specs.parse(document, **kwargs))
    schema = text_format.Parse(text, feature_reading.library().Schema())
    return schema, {feature.name: feature for feature in schema.feature}, lost, text


def back(document, **kwargs):
    """The spec that comes back."""
    schema = exported(document, **kwargs)[0]
    texts, _ = to_spec.spec_files(schema, labels=[], source="s.pbtxt")
    check_loads(texts)
    return read_text(texts["spec.yaml"], "spec.yaml")[0], texts


def test_the_features_of_a_schema():
    schema, features, _, _ = exported(SPEC)
    pb = feature_reading.library()
    assert list(schema.default_environment) == ["TRAINING", "SERVING"]
    assert list(features) == [*SPEC["features"], *SPEC["labels"]]
    assert features["price"] == text_format.Parse(
        'name: "price" type: FLOAT shape { } '
        "drift_comparator { jensen_shannon_divergence { threshold: 0.5 } }", pb.Feature(),
    )  # fmt: skip
    assert features["pixels"] == text_format.Parse(
        'name: "pixels" type: FLOAT shape { dim { size: 2 } dim { size: 3 } } '
        "presence { min_fraction: 1 min_count: 1 }", pb.Feature(),
    )  # fmt: skip
    near = "drift_comparator { infinity_norm { threshold: 0.25 } }"
    assert features["city"] == text_format.Parse(
        'name: "city" type: BYTES shape { } presence { min_fraction: 1 min_count: 1 } '
        'string_domain { name: "city" value: "rome" value: "oslo" } '
        f"distribution_constraints {{ min_domain_mass: 0 }} {near}", pb.Feature(),
    )  # fmt: skip
    assert features["kind"] == text_format.Parse(
        'name: "kind" type: INT shape { } '
        f'int_domain {{ name: "kind" min: 0 max: 2 is_categorical: true }} {near}', pb.Feature(),
    )  # fmt: skip
    for name in ("level", "item"):
        assert features[name] == text_format.Parse(
            f'name: "{name}" type: INT shape {{ }} presence {{ min_fraction: 1 min_count: 1 }} '
            f'int_domain {{ name: "{name}" is_categorical: true }} {near}', pb.Feature(),
        )  # fmt: skip
    assert features["tags"] == text_format.Parse(
        'name: "tags" type: BYTES value_count { min: 0 } '
        'string_domain { name: "tags" value: "a" value: "b" } '
        f"distribution_constraints {{ min_domain_mass: 0 }} {near}", pb.Feature(),
    )  # fmt: skip
    assert features["note"] == text_format.Parse(
        'name: "note" type: BYTES shape { } lifecycle_stage: DISABLED', pb.Feature()
    )
    assert features["importance"] == text_format.Parse(
        'name: "importance" type: FLOAT shape { } presence { min_fraction: 1 min_count: 1 } '
        'not_in_environment: "SERVING"', pb.Feature(),
    )  # fmt: skip
    defaults = schema.tensor_representation_group[""].tensor_representation
    assert {name: defaults[name].dense_tensor.default_value for name in defaults} == {
        "price": pb.TensorRepresentation.DefaultValue(float_value=1.5),
        "kind": pb.TensorRepresentation.DefaultValue(int_value=-1),
        "user": pb.TensorRepresentation.DefaultValue(bytes_value=b""),
        "note": pb.TensorRepresentation.DefaultValue(bytes_value=b"none"),
    }


def test_the_labels_of_a_schema():
    _, features, _, _ = exported(SPEC)
    label = (
        'shape { } presence { min_fraction: 1 min_count: 1 } annotation { tag: "label" } '
        'not_in_environment: "SERVING"'
    )
    near = "drift_comparator { infinity_norm { threshold: %s } }"
    expected = {
        "click": 'type: INT int_domain { name: "click" min: 0 max: 1 is_categorical: true }'
        + near % 0.0625,
        "stars": 'type: INT int_domain { name: "stars" min: 0 max: 4 is_categorical: true }',
        "color": 'type: BYTES string_domain { name: "color" value: "r" value: "g" value: "b" }'
        + near % 0.25,
        "spent": "type: FLOAT",
        "liked": 'type: FLOAT float_domain { name: "liked" min: 0 max: 1 }',
    }
    for name, text in expected.items():
        assert features[name] == text_format.Parse(
            f'name: "{name}" {label} {text}', feature_reading.library().Feature()
        )


def test_what_is_not_in_a_schema_is_listed():
    _, _, lost, text = exported(SPEC)
    warned = ("city", "kind", "level", "user", "item", "tags")
    assert sorted(lost) == sorted([
        "drift of feature price: missing: stop 0.125",
        *(f"drift of feature {name}: l_infinity: warn 0.1" for name in warned),
        "drift of label color: l_infinity: warn 0.1",
        "drift of label liked: l_infinity: stop 0.25",
        "drift of label liked: l_infinity: warn 0.1",
        "columns.city.oov_buckets: 2; words outside are allowed",
        "columns.tag: words outside have no id; they are allowed",
        "columns.level.size: 9; default_id allows other values",
        "columns.item.size: 30",
        'columns.price: {"numeric": "price", "normalizer": [{"log1p": true}]}',
        'columns.pixels: {"numeric": "pixels"}',
        'columns.user: {"hash_bucket": "user", "size": 20}',
        'columns.city_hot: {"indicator": "city"}',
        "labels.click.weight: importance",
        "groups.wide: price, city, kind, level, user, item, tag",
        "groups.deep: pixels, city_hot",
        'objectives.click: {"head": "binary"}',
        'objectives.stars: {"head": "multi_class", "num_classes": 5}',
        'objectives.color: {"head": "multi_class", "num_classes": 3}',
        'objectives.spent: {"loss_weight": 0.5, "head": "regression"}',
        'objectives.liked: {"head": "binary"}',
    ])  # fmt: skip
    head = text.split("\n\n")[0].splitlines()
    assert head[1:] == [f"#   {line}" for line in lost]


def test_what_comes_back():
    document, _ = back(SPEC)
    assert document["features"] == SPEC["features"]
    assert document["labels"] == {**SPEC["labels"], "click": {"dtype": "int64"}}
    heads = {name: {**entry} for name, entry in SPEC["objectives"].items()}
    del heads["spent"]["loss_weight"]
    assert document["objectives"] == heads
    # The feature is no longer the weight of a label, and serving would need it.
    assert document["ignored"] == ["note", "importance"]
    columns = document["columns"]
    assert columns["city"] == {"vocabulary": "city", "list": ["rome", "oslo"], "oov_buckets": 1}
    assert columns["tags"] == {"vocabulary": "tags", "list": ["a", "b"], "oov_buckets": 1}
    assert columns["kind"] == {"identity": "kind", "size": 3}
    assert columns["level"] == {"hash_bucket": "level", "size": 10000}
    categories = ("city", "kind", "level", "user", "item", "tags")
    assert document["drift"] == {
        "features": {
            "price": {"jensen_shannon": {"stop": 0.5}},
            **{name: {"l_infinity": {"stop": 0.25}} for name in categories},
        },
        "labels": {
            "click": {"l_infinity": {"stop": 0.0625}}, "color": {"l_infinity": {"stop": 0.25}},
        },
    }  # fmt: skip


@pytest.mark.parametrize("name", ["ads", "adult", "tests"])
def test_features_and_labels_of_other_specs_come_back(name):
    if name == "tests":
        document = copy.deepcopy(DOCUMENT)
    else:
        path = ROOT / "feature_specs" / "catalog" / f"{name}.yaml"
        document = read_text(path.read_text(encoding="utf-8"), str(path))[0]
    found, _ = back(document)
    assert found["features"] == document["features"]
    plain = {
        label: {k: v for k, v in entry.items() if k in ("dtype", "vocabulary")}
        for label, entry in document["labels"].items()
    }
    assert found["labels"] == plain
    assert found["objectives"] == {
        label: {k: v for k, v in entry.items() if k != "loss_weight"}
        for label, entry in document["objectives"].items()
    }


def test_a_weighted_column_comes_back():
    document = copy.deepcopy(SPEC)
    document["features"]["counts"] = {"dtype": "float32", "shape": "variable"}
    document["columns"]["tags_counted"] = {"weighted": "tag", "weight": "counts"}
    document["groups"]["wide"].append("tags_counted")
    schema, _, lost, _ = exported(document)
    assert list(schema.weighted_feature) == [text_format.Parse(
        'name: "tags_counted" feature { step: "tags" } weight_feature { step: "counts" }',
        feature_reading.library().WeightedFeature(),
    )]  # fmt: skip
    assert not [line for line in lost if line.startswith("columns.tags_counted")]
    found, _ = back(document)
    assert found["columns"]["tags_counted"] == {"weighted": "tags", "weight": "counts"}
    assert "tags_counted" in found["groups"]["wide"] and "counts" not in found["ignored"]
    assert found["features"] == document["features"]


def test_a_vocabulary_file_comes_back(tmp_path):
    words = [f"w{i}" for i in range(60)]
    (tmp_path / "words.txt").write_text("\n".join(words))
    document = copy.deepcopy(SPEC)
    document["columns"]["city"] = {"vocabulary": "city", "file": "words.txt", "size": 55}
    document["columns"]["kind"] = {"vocabulary": "kind", "list": [5, 7], "default_id": 1}
    _, features, lost, _ = exported(document, directory=tmp_path)
    assert list(features["city"].string_domain.value) == words[:55]
    assert "columns.kind: the list of its integers" in lost
    found, texts = back(document, directory=tmp_path)
    assert found["columns"]["city"] == {
        "vocabulary": "city", "file": "vocabularies/city.txt", "oov_buckets": 1,
    }  # fmt: skip
    assert texts["vocabularies/city.txt"].split() == words[:55]


def test_a_feature_list_becomes_a_list_and_is_reported():
    document = copy.deepcopy(SPEC)
    document["features"]["tags"] = {"dtype": "string", "feature_list": True}
    _, features, lost, _ = exported(document)
    assert features["tags"].value_count.min == 0
    assert "features.tags.feature_list: true; a list in the Schema" in lost


def test_bytes_that_are_decoded_and_lists_of_lists():
    document = copy.deepcopy(DOCUMENT)
    photo = {"image": {"height": 2, "width": 3, "channels": 1, "resize": "area"}}
    document["features"].update(
        photo={"dtype": "string", "default": "zeros", "decode": photo},
        sound={"dtype": "string", "decode": {"raw": {"dtype": "int8", "shape": [4]}}},
        prices={"dtype": "float32", "shape": "variable", "row_lengths": "days"},
        days={"dtype": "int64", "shape": "variable"},
    )
    document["columns"].update(
        photo={"numeric": "photo"}, sound={"numeric": "sound"}, prices={"ragged": "prices"}
    )
    document["groups"].update(more=["photo", "sound"], lists=["prices"])
    schema, features, lost, _ = exported(document)
    assert features["photo"].HasField("image_domain") and features["photo"].type == 1
    assert not features["sound"].HasField("image_domain")
    tensor = schema.tensor_representation_group[""].tensor_representation["photo"].dense_tensor
    assert tensor.default_value.bytes_value == b"" and tensor.default_value.HasField("bytes_value")
    assert [line for line in lost if line.startswith("features.")] == [
        'features.photo.decode: {"image": {"height": 2, "width": 3, "channels": 1, "resize": '
        '"area"}}',
        'features.sound.decode: {"raw": {"dtype": "int8", "shape": [4]}}',
        "features.prices.row_lengths: days",
    ]
    assert 'columns.prices: {"ragged": "prices"}' in lost
    again, _ = back(document)
    assert again["features"]["photo"]["dtype"] == "string" and "photo" in again["ignored"]
