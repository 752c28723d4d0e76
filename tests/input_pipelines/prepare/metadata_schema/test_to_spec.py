"""to_spec: what each part of a Schema becomes in a spec, and which parts are listed as lost."""

from __future__ import annotations

import hypothesis
import pytest
from google.protobuf import text_format
from hypothesis import strategies as st

import feature_specs
from feature_specs.parser.yaml_reader import read_text
from input_pipelines.prepare.analyze import folder
from input_pipelines.prepare.analyze.first_spec import check_loads
from input_pipelines.prepare.metadata_schema import feature_reading, to_spec
from input_pipelines.prepare.metadata_schema.feature_reading import SchemaError

# In the form in which TensorFlow Data Validation writes an inferred Schema and people edit it.
SCHEMA = """
feature {
  name: "fare" type: FLOAT
  presence { min_fraction: 1.0 min_count: 1 }
  shape { dim { size: 1 } }
  float_domain { min: 0.0 max: 200.0 }
  drift_comparator { jensen_shannon_divergence { threshold: 0.25 } }
}
feature {
  name: "miles" type: FLOAT
  presence { min_count: 1 }
  value_count { min: 1 max: 1 }
  skew_comparator { infinity_norm { threshold: 0.01 } }
}
feature {
  name: "payment" type: BYTES
  domain: "payments"
  presence { min_fraction: 1.0 min_count: 1 }
  shape { dim { size: 1 } }
  distribution_constraints { min_domain_mass: 0.9 }
  drift_comparator { infinity_norm { threshold: 0.5 } }
}
feature {
  name: "company" type: BYTES
  value_count { min: 1 max: 1 }
  presence { min_fraction: 0.5 min_count: 1 }
  annotation { tag: "owner" comment: "as the city writes it" }
}
feature {
  name: "hour" type: INT
  presence { min_fraction: 1.0 }
  shape { dim { size: 1 } }
  int_domain { min: 0 max: 23 is_categorical: true }
}
feature {
  name: "floor" type: INT
  shape { }
  int_domain { min: -2 max: 2 is_categorical: true }
}
feature { name: "area_id" type: INT shape { } unique_constraints { max: 40 } }
feature { name: "seconds" type: INT shape { } presence { min_fraction: 1 } int_domain { min: 0 } }
feature { name: "tags" type: BYTES value_count { min: 0 max: 5 } }
feature { name: "codes" type: BYTES shape { dim { size: 3 } } presence { min_fraction: 1 } }
feature {
  name: "vector" type: FLOAT shape { dim { size: 4 } dim { size: 2 } } presence { min_fraction: 1 }
}
feature { name: "flag" type: BYTES shape { } bool_domain { true_value: "Y" false_value: "N" } }
feature { name: "weekend" type: INT shape { } bool_domain { } }
feature { name: "unknown_length" type: BYTES }
feature { name: "ragged" type: FLOAT value_count { min: 0 } }
feature { name: "old" type: INT shape { } lifecycle_stage: DEPRECATED }
feature { name: "photo" type: BYTES shape { } image_domain { minimum_supported_image_fraction: 1 } }
feature { name: "page" type: BYTES shape { } url_domain { } }
feature { name: "trip" type: STRUCT struct_domain { feature { name: "x" } } }
feature { name: "odd name" type: INT }
feature {
  name: "nested" type: INT value_counts { value_count { min: 1 } value_count { min: 1 } }
}
feature { name: "row_weight" type: FLOAT shape { } not_in_environment: "SERVING" }
feature {
  name: "tip" type: INT
  presence { min_fraction: 1.0 }
  shape { dim { size: 1 } }
  int_domain { min: 0 max: 1 }
  annotation { tag: "label" }
  not_in_environment: "SERVING"
}
string_domain { name: "payments" value: "cash" value: "card" value: "" value: "cash" }
default_environment: "TRAINING"
default_environment: "SERVING"
tensor_representation_group {
  key: ""
  value {
    tensor_representation {
      key: "d" value { dense_tensor { column_name: "miles" default_value { float_value: 2.5 } } }
    }
    tensor_representation {
      key: "rows" value { ragged_tensor { feature_path { step: "tags" } } }
    }
  }
}
weighted_feature { name: "w" feature { step: "tags" } weight_feature { step: "hour" } }
weighted_feature { name: "codes" feature { step: "codes" } weight_feature { step: "ragged" } }
weighted_feature { name: "v" feature { step: "hour" } weight_feature { step: "ragged" } }
weighted_feature { name: "u" feature { step: "x" step: "y" } weight_feature { step: "ragged" } }
dataset_constraints { min_examples_count: 10 }
"""


def schema_of(text):
    return text_format.Parse(text, feature_reading.library().Schema())


def spec_of(text, *labels):
    texts, report = to_spec.spec_files(schema_of(text), labels=labels, source="s.pbtxt")
    check_loads(texts)
    document, _ = read_text(texts["spec.yaml"], "spec.yaml")
    return document, report, texts


@pytest.fixture(scope="module")
def imported():
    return spec_of(SCHEMA)


def test_the_features_by_the_rules(imported):
    document, _, _ = imported
    assert document["features"] == {
        "fare": {"dtype": "float32"},
        "miles": {"dtype": "float32", "default": 2.5},
        "payment": {"dtype": "string"},
        "company": {"dtype": "string", "default": ""},
        "hour": {"dtype": "int64"},
        "floor": {"dtype": "int64", "default": -1},
        "area_id": {"dtype": "int64", "default": -1},
        "seconds": {"dtype": "int64"},
        "tags": {"dtype": "string", "shape": "variable"},
        "codes": {"dtype": "string", "shape": "variable"},
        "vector": {"dtype": "float32", "shape": [4, 2]},
        "flag": {"dtype": "string", "default": ""},
        "weekend": {"dtype": "int64", "default": -1},
        "unknown_length": {"dtype": "string", "shape": "variable"},
        "ragged": {"dtype": "float32", "shape": "variable"},
        "old": {"dtype": "int64", "default": 0},
        "photo": {"dtype": "string", "default": ""},
        "page": {"dtype": "string", "default": ""},
        "row_weight": {"dtype": "float32", "default": 0.0},
    }
    assert document["ignored"] == ["ragged", "old", "photo", "row_weight"]
    assert document["labels"] == {"tip": {"dtype": "int64"}}
    assert document["objectives"] == {"tip": {"head": "binary"}}
    assert document["drift"] == {
        "features": {
            "fare": {"jensen_shannon": {"stop": 0.25}}, "payment": {"l_infinity": {"stop": 0.5}},
        }
    }  # fmt: skip


def test_the_columns_by_the_rules(imported):
    document, _, _ = imported
    columns = document["columns"]
    categories = {name: column for name, column in columns.items() if name in document["features"]}
    assert categories == {
        # "" means missing, and "cash" is listed twice.
        "payment": {"vocabulary": "payment", "list": ["cash", "card"], "oov_buckets": 1},
        "company": {"hash_bucket": "company", "size": 10000},  # 1,000 ids, a guess, times 10
        "hour": {"identity": "hour", "size": 24},
        "floor": {"vocabulary": "floor", "list": [-2, -1, 0, 1, 2]},
        "area_id": {"hash_bucket": "area_id", "size": 400},  # 40 ids times 10
        "tags": {"hash_bucket": "tags", "size": 10000},
        "codes": {"hash_bucket": "codes", "size": 10000},
        "flag": {"vocabulary": "flag", "list": ["N", "Y"]},
        "weekend": {"identity": "weekend", "size": 2},
        "unknown_length": {"hash_bucket": "unknown_length", "size": 10000},
        "page": {"hash_bucket": "page", "size": 10000},
    }
    assert columns["fare_scaled"] == {
        "numeric": "fare", "normalizer": {"minmax": {"min": 0.0, "max": 200.0}},
    }  # fmt: skip
    for name in ("miles", "seconds", "vector"):
        assert columns[f"{name}_number"] == {"numeric": name}
    assert columns["payment_hot"] == {"indicator": "payment"}
    # The fourth root of 24 is 2.2, and 4 is the minimum.
    assert columns["hour_emb"] == {"embedding": "hour", "dimension": 4}
    assert {"fare_scaled", "payment", "hour"} <= set(document["groups"]["wide"])
    assert {"fare_scaled", "payment_hot", "hour_emb"} <= set(document["groups"]["deep"])


def test_lost_parts_are_listed_in_the_report_and_in_the_comments(imported):
    _, report, texts = imported
    assert [line for line in report if not line.startswith("not in the spec: ")] == [
        "ignored: ragged: lists of numbers with different lengths need a sequence_numeric or "
        "ragged column and a custom model that reads its group; write such a model, or store the "
        "same number of values in every record",
        "ignored: old: its stage in the Schema is DEPRECATED",
        "ignored: photo: its domain is image_domain; use decode: {image: {height, width, "
        "channels}} to read it",
        "left out: trip: its type is STRUCT, but a spec has only FLOAT, INT and BYTES",
        "left out: odd name: its name cannot be part of a TensorFlow variable's name; rename it to "
        "use it",
        "left out: nested: its values are nested lists; a spec can only read flat lists with "
        "row_lengths",
        "ignored: row_weight: the environment SERVING lacks it, so it may be the weight of a label",
    ]
    lost = [line[17:] for line in report if line.startswith("not in the spec: ")]
    assert sorted(lost) == sorted([
        *(
            f'weighted_feature {{ name: "{name}" feature {{ {steps} }} weight_feature {{ step: '
            f'"{weight}" }} }}: {reason}'
            for name, steps, weight, reason in (
                ("w", 'step: "tags"', "hour", "'hour' is not a list of numbers"),
                ("codes", 'step: "codes"', "ragged", "a column cannot have its name"),
                ("v", 'step: "hour"', "ragged", "'hour' is not a list of categories"),
                ("u", 'step: "x" step: "y"', "ragged", "'x / y' is not a feature of the spec"),
            )
        ),
        "default_environment TRAINING, SERVING: a spec only distinguishes training and serving "
        "without labels",
        "dataset_constraints { min_examples_count: 10 }",
        "tensor_representation_group '': rows: { ragged_tensor { feature_path { step: \"tags\" } } "
        "}",
        "fare: float_domain { min: 0.0 max: 200.0 }: no range is checked",
        "miles: skew_comparator { infinity_norm { threshold: 0.01 } }",
        "payment: distribution_constraints { min_domain_mass: 0.9 }: a vocabulary allows other "
        "words",
        "company: presence { min_fraction: 0.5 min_count: 1 }: a spec knows only whether every "
        "record has it",
        "floor: int_domain { min: -2 max: 2 is_categorical: true }: no range is checked",
        "area_id: unique_constraints { max: 40 }",
        "seconds: int_domain { min: 0 }: no range is checked",
        "tags: value_count { min: 0 max: 5 }: a list in a spec may have any length",
        "payment: string_domain: the word 'cash' is listed twice, and has one id",
        "photo: image_domain { minimum_supported_image_fraction: 1.0 }",
        "page: url_domain { }",
        "trip: struct_domain { feature { name: \"x\" } }",
        "nested: value_counts { value_count { min: 1 } value_count { min: 1 } }",
    ])  # fmt: skip
    comments = " ".join(
        line.strip("# ") for line in texts["spec.yaml"].splitlines() if line.strip().startswith("#")
    )
    for line in lost:
        name, _, rest = line.partition(": ")
        # The comment is above the feature. A feature that is left out only has its reason.
        if name not in ("trip", "nested"):
            assert line in comments or rest in comments, line
    assert "as the city writes it" in comments and "tags: owner" in comments


ONE = 'feature { name: "a" type: BYTES shape { } } '


@pytest.mark.parametrize(
    "label, expected",
    [
        ("type: INT", ({"dtype": "int64"}, {"head": "regression"})),
        ("type: FLOAT shape { }", ({"dtype": "float32"}, {"head": "regression"})),
        ("type: FLOAT float_domain { min: 0 max: 1 }", ({"dtype": "float32"}, {"head": "binary"})),
        ("type: INT bool_domain { }", ({"dtype": "int64"}, {"head": "binary"})),
        ("type: INT int_domain { min: 0 max: 4 }",
         ({"dtype": "int64"}, {"head": "multi_class", "num_classes": 5})),
        ("type: INT int_domain { min: 1 max: 4 }", ({"dtype": "int64"}, {"head": "regression"})),
        ('type: BYTES string_domain { value: "n" value: "y" }',
         ({"dtype": "string", "vocabulary": ["n", "y"]}, {"head": "binary"})),
        ('type: BYTES string_domain { value: "r" value: "g" value: "b" }',
         ({"dtype": "string", "vocabulary": ["r", "g", "b"]},
          {"head": "multi_class", "num_classes": 3})),
    ],
)  # fmt: skip
def test_labels(label, expected):
    document, _, _ = spec_of(f'{ONE} feature {{ name: "y" {label} }}', "y")
    assert (document["labels"]["y"], document["objectives"]["y"]) == expected


def test_only_characters_that_cannot_be_printed_are_escaped_in_words():
    words = ["Zürich", "東京", "😀", "\u2028", "\x7f", "a\\b"]
    octal = ["".join(f"\\{byte:03o}" for byte in word.encode()) for word in words]
    domain = " ".join(f'value: "{word}"' for word in octal)
    text = f'{ONE} feature {{ name: "c" type: BYTES shape {{ }} string_domain {{ {domain} }} }} '
    document, _, texts = spec_of(text + 'feature { name: "y" type: INT }', "y")
    assert document["columns"]["c"]["list"] == words
    written = r'list: ["Zürich", "東京", "😀", "\u2028", "\u007f", "a\\b"]'
    assert written in texts["spec.yaml"]


def test_labels_are_named_or_tagged_or_not_in_serving():
    text = (
        f'{ONE} feature {{ name: "y" type: INT not_in_environment: "SERVING" }}'
        'feature { name: "z" type: INT not_in_environment: "SERVING" %s }'
        'default_environment: "TRAINING" default_environment: "SERVING"'
    )
    assert list(spec_of(text % "")[0]["labels"]) == ["y", "z"]
    document, _, _ = spec_of(text % 'annotation { tag: "label" }')
    assert list(document["labels"]) == ["z"] and document["ignored"] == ["y"]
    assert list(spec_of(text % "", "y")[0]["labels"]) == ["y"]


def test_a_long_domain_is_a_vocabulary_file(tmp_path):
    words = [f"w{i}" for i in range(51)]
    domain = " ".join(f'value: "{word}"' for word in words)
    (tmp_path / "s.pbtxt").write_text(
        f'feature {{ name: "a" type: BYTES shape {{ }} string_domain {{ {domain} }} }}'
        'feature { name: "y" type: INT }'
    )
    place = tmp_path / "first"
    report = to_spec.write(str(tmp_path / "s.pbtxt"), labels=["y"], directory=str(place))
    assert report == f"{place}/spec.yaml: a first spec of {tmp_path}/s.pbtxt"
    spec = feature_specs.load(place / "spec.yaml")
    assert spec.size_of("a") == 51
    assert (place / "vocabularies/a.txt").read_text() == "".join(f"{w}\n" for w in words)
    # Writing again is allowed, but not if somebody has changed a file.
    to_spec.write(str(tmp_path / "s.pbtxt"), labels=["y"], directory=str(place))
    (place / "spec.yaml").write_text("mine")
    with pytest.raises(folder.FolderError, match="was changed since"):
        to_spec.write(str(tmp_path / "s.pbtxt"), labels=["y"], directory=str(place))
    assert (place / "spec.yaml").read_text() == "mine"


@pytest.mark.parametrize("count", [5, 50, 51, 400])
@pytest.mark.parametrize(
    "special",
    ["a\nb", "\n", "a\rb", "\r", "b\r", "\ufeffa", "\0", " ", " a ", "a\tb", "\u2028", "\x85", "no",
     "~", "1e3", "'", '"', "\\", "\\n"],
)  # fmt: skip
def test_each_word_of_a_domain_has_its_own_id(tmp_path, count, special):
    """TensorFlow would read a word with a line break as two words, and move all later ids."""
    words = [special, *(f"w{i}" for i in range(count - 1))]
    octal = ["".join(f"\\{byte:03o}" for byte in word.encode()) for word in words]
    domain = " ".join(f'value: "{word}"' for word in octal)
    (tmp_path / "s.pbtxt").write_text(
        f'feature {{ name: "a" type: BYTES shape {{ }} string_domain {{ {domain} }} }}'
        'feature { name: "y" type: INT }'
    )
    to_spec.write(str(tmp_path / "s.pbtxt"), labels=["y"], directory=str(tmp_path / "first"))
    spec = feature_specs.load(tmp_path / "first" / "spec.yaml")
    column = spec.columns["a"]
    assert column.row_names(spec) == words
    fits = not (special.endswith("\r") or "\n" in special or special.startswith("\ufeff"))
    assert (column.file is not None) == (count > 50 and fits)
    if column.file is None and count > 50:
        text = (tmp_path / "first" / "spec.yaml").read_text(encoding="utf-8")
        comments = " ".join(text.replace("#", " ").split())
        assert "a list, because a line of a file cannot hold" in comments


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_a_default_that_is_not_finite_is_lost(value):
    text = (
        'feature { name: "a" type: FLOAT shape { } } feature { name: "y" type: INT }'
        'tensor_representation_group { key: "" value { tensor_representation { key: "a" value {'
        f' dense_tensor {{ column_name: "a" default_value {{ float_value: {value} }} }} }} }} }} }}'
    )
    document, report, _ = spec_of(text, "y")
    assert document["features"]["a"] == {"dtype": "float32", "default": 0.0}
    lost = f"a: default_value {{ float_value: {value} }}: it is not finite"
    assert f"not in the spec: {lost}" in report


@pytest.mark.parametrize("ends", ["min: -inf max: inf", "min: 0 max: inf", "min: nan max: 1"])
def test_a_range_without_finite_ends_is_no_scale(ends):
    text = f'feature {{ name: "a" type: FLOAT shape {{ }} float_domain {{ {ends} }} }}'
    document, report, _ = spec_of(text + 'feature { name: "y" type: INT }', "y")
    assert document["columns"] == {"a_number": {"numeric": "a"}}
    assert any("no range is checked" in line for line in report)


@pytest.mark.parametrize(
    "text, labels, message",
    [
        ("", ["y"], "'s.pbtxt' has no feature"),
        ("feature { type: INT }", ["y"], "'s.pbtxt': feature 0 has no name"),
        (ONE + ONE, ["y"], "'s.pbtxt': feature 'a' is listed twice"),
        (ONE, [], "'s.pbtxt' does not say which features are labels: no feature has the tag "
         "'label', and its default environments have all features. Name the labels, for example "
         "--labels=click"),
        ('feature { name: "click" type: INT }', ["clik"],
         "--labels: 's.pbtxt' has no feature 'clik'. Did you mean 'click'?"),
        ('feature { name: "y" type: INT }', ["y"],
         "apart from the labels, 's.pbtxt' has no feature for a column"),
        (ONE + 'feature { name: "y" type: STRUCT }', ["y"],
         "--labels: feature 'y' of 's.pbtxt' cannot be a label: its type is STRUCT, but a spec "
         "has only FLOAT, INT and BYTES"),
        (ONE + 'feature { name: "y" type: INT value_count { min: 0 } }', ["y"],
         "--labels: feature 'y' of 's.pbtxt' cannot be a label: a label must have one value. "
         "Name the features to learn with --labels"),
        (ONE, ["a"], "--labels: feature 'a' of 's.pbtxt' is text with 0 words in its domain; a "
         "label must have 2 to 1,000 classes, or be a number"),
    ],
)  # fmt: skip
def test_schemas_that_cannot_be_used(text, labels, message):
    with pytest.raises(SchemaError) as error:
        to_spec.spec_files(schema_of(text), labels=labels, source="s.pbtxt")
    assert str(error.value) == message


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(SchemaError, match=r"'/no/s\.pbtxt' cannot be read: No such file"):
        feature_reading.read_schema("/no/s.pbtxt")
    path = tmp_path / "s.pbtxt"
    path.write_bytes(b"feature { \xff }")
    with pytest.raises(SchemaError, match=r"cannot be read: 'utf-8' codec can't decode byte 0xff"):
        feature_reading.read_schema(str(path))
    path.write_text("feature { nmae: 1 }")
    with pytest.raises(
        SchemaError, match="is not a Schema of tensorflow-metadata in text format: 1"
    ):
        feature_reading.read_schema(str(path))


_PARTS = {
    "type": ["type: INT", "type: FLOAT", "type: BYTES", "type: STRUCT", ""],
    "shape": ["shape { }", "shape { dim { size: 1 } }", "shape { dim { size: 3 } }",
              "shape { dim { } }", "value_count { min: 1 max: 1 }", "value_count { max: 3 }", ""],
    "presence": ["presence { min_fraction: 1 }", "presence { min_fraction: 0.2 }", ""],
    "domain": ["int_domain { min: 3 max: 3 }", "int_domain { min: -5 max: 9000000 }",
               "int_domain { min: 0 max: 60 is_categorical: true }",
               "int_domain { min: -90 max: 0 is_categorical: true }",
               "int_domain { max: 3 is_categorical: true }", "float_domain { min: -1 max: 2 }",
               "float_domain { disallow_nan: true }", "float_domain { min: -inf max: inf }",
               "float_domain { min: 0 max: inf }", "float_domain { min: nan max: nan }",
               "float_domain { min: -3e38 max: 3e38 }", "float_domain { min: 0 max: 1e-45 }",
               "int_domain { min: -9223372036854775808 max: 9223372036854775807 }",
               "int_domain { min: 0 max: 9223372036854775807 is_categorical: true }",
               "string_domain { " + " ".join(f'value: "w{i}"' for i in range(60)) + " }",
               ' string_domain { value: "a\\nb" '
               + " ".join(f'value: "w{i}"' for i in range(60)) + " }",
               'string_domain { value: "\\000" value: "\\r" value: "" value: "a" value: "a" }',
               'string_domain { value: "x # y\\n" }',
               "string_domain { }", "bool_domain { }", "mid_domain { }", "time_domain { }",
               'domain: "gone"', ""],
    "more": ["lifecycle_stage: ALPHA", "deprecated: true", 'in_environment: "X"',
             "drift_comparator { infinity_norm { threshold: 2 } }",
             "drift_comparator { infinity_norm { threshold: 0.1 } }",
             "drift_comparator { jensen_shannon_divergence { threshold: 0.1 } }",
             'annotation { comment: "a\\nb" }', "unique_constraints { max: 3 }", ""],
}  # fmt: skip


@hypothesis.settings(max_examples=50, deadline=None, derandomize=True)
@hypothesis.given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "a_hot", "user_id", "x y", "no"]),
            *(st.sampled_from(choices) for choices in _PARTS.values()),
        ),
        max_size=5, unique_by=lambda feature: feature[0],
    )
)  # fmt: skip
def test_every_schema_becomes_a_spec_that_loads(features):
    text = "".join(f'feature {{ name: "{n}" {" ".join(p)} }}' for n, *p in features)
    always = 'feature { name: "always" type: BYTES shape { } }'
    spec_of(f'{text} {always} feature {{ name: "y" type: INT }}', "y")
