"""The JSON Schema accepts and rejects the same specs as the parser."""

from __future__ import annotations

import copy

import jsonschema
import pytest

from feature_specs import json_schema
from feature_specs.parser.yaml_reader import read_text
from tests.conftest import DOCUMENT, ROOT
from tests.feature_specs.embeddings import test_embeddings

CHECK = jsonschema.Draft202012Validator(json_schema.json_schema())


def test_the_shipped_file_is_current():
    assert json_schema.FILE.read_text(encoding="utf-8") == json_schema.text(), (
        "run python -m feature_specs.json_schema > feature_specs/spec.schema.json"
    )
    jsonschema.Draft202012Validator.check_schema(json_schema.json_schema())


def test_definitions_are_named_after_classes_and_not_after_where_their_code_is():
    names = json_schema.json_schema()["$defs"]
    assert {"Normal__Values", "ZScore__Values", "Embedding"} <= set(names)
    assert not [name for name in names if name.startswith("feature_specs")]


@pytest.mark.parametrize("name", ["ads", "adult"])
def test_the_catalog_is_right(name):
    path = ROOT / "feature_specs" / "catalog" / f"{name}.yaml"
    document, _ = read_text(path.read_text(encoding="utf-8"), str(path))
    CHECK.validate(document)


def test_the_specs_of_other_tests_are_right():
    CHECK.validate(DOCUMENT)
    CHECK.validate(test_embeddings.DOCUMENT)
    guide = (ROOT / "docs/guides/data.md").read_text(encoding="utf-8")
    document, _ = read_text(guide.split("```yaml\n")[1].split("```")[0], "data.md")
    CHECK.validate(document)


@pytest.mark.parametrize(
    "section, name, entry, right",
    [
        ("features", "price", {"dtype": "float32", "shape": [2, 3]}, True),
        ("features", "price", {"dtype": "float64"}, False),
        ("features", "price", {"dtype": "float32", "feature_list": True}, True),
        ("features", "price", {"dtype": "float32", "feature_list": "yes"}, False),
        ("features", "price", {"dtype": "float32", "shape": "long"}, False),
        ("features", "price", {"dtype": "float32", "defualt": 0}, False),
        ("features", "price", {"dtype": "string", "decode": {"raw": {"dtype": "int16"}}}, True),
        ("features", "price", {"dtype": "string", "default": "zeros", "decode": {
            "raw": {"dtype": "uint8", "shape": [2, 3], "little_endian": False}}}, True),
        ("features", "price", {"dtype": "string", "decode": {"raw": {"dtype": "uint32"}}}, False),
        ("features", "price", {"dtype": "string", "decode": {"raw": {
            "dtype": "int8", "shape": "variable"}}}, False),
        ("features", "price", {"dtype": "string", "decode": "raw"}, False),
        ("features", "price", {"dtype": "string", "decode": {"image": {
            "height": 8, "width": 9, "channels": 3, "resize": "area", "scale": False}}}, True),
        ("features", "price", {"dtype": "string", "decode": {"image": {
            "height": 8, "width": 9, "channels": 2}}}, False),
        ("features", "price", {"dtype": "string", "decode": {"image": {"height": 8}}}, False),
        ("features", "price",
         {"dtype": "float32", "shape": "variable", "row_lengths": "lengths"}, True),
        ("features", "price", {"dtype": "float32", "row_lengths": 3}, False),
        ("columns", "price", {"ragged": "price", "normalizer": "log1p"}, True),
        ("columns", "price", {"ragged": "price", "sequence": True}, False),
        ("columns", "price", {"numeric": "price", "normalizer": "log1p"}, True),
        ("columns", "price",
         {"numeric": "price", "normalizer": ["log1p", {"clip": {"min": 0, "max": 1}}]}, True),
        ("columns", "price",
         {"numeric": "price", "normalizer": {"zscore": {"mean": 0, "stddev": 1}}}, True),
        ("columns", "price", {"numeric": "price", "normalizer": "log"}, False),
        ("columns", "price", {"numeric": "price", "normalizer": {"zscore": {"mean": 0}}}, False),
        ("columns", "price", {"numerical": "price"}, False),
        ("columns", "price",
         {"numeric": "price", "normalizer": {"zscore": {"statistics": "s.json"}}}, True),
        ("columns", "bucket", {"bucketized": "price", "boundaries": [1, 2]}, True),
        ("columns", "bucket",
         {"bucketized": "price", "quantiles": 4, "statistics": "s.json"}, True),
        ("columns", "bucket", {"bucketized": "price", "quantiles": 4}, False),
        ("columns", "user_emb",
         {"embedding": "user", "dimension": 4, "initializer": "zeros"}, True),
        ("columns", "user_emb",
         {"embedding": "user", "dimension": 4, "initializer": {"normal": {"stddev": 0.1}}}, True),
        ("columns", "user_emb",
         {"embedding": "user", "dimension": 4, "initializer": "ones"}, False),
        ("columns", "user_emb", {"embedding": "user", "dimension": 0}, False),
        ("columns", "user_emb", {"embedding": "user"}, False),
        ("labels", "click", {"dtype": "int64", "weight": "price"}, True),
        ("labels", "click", {"dtype": "int64", "wieght": "price"}, False),
        ("objectives", "click", {"head": "multi_class", "num_classes": 3}, True),
        ("objectives", "click", {"head": "multi_class"}, False),
        ("objectives", "click", {"head": "ranking"}, False),
        ("objectives", "click", {"head": "binary", "loss": "focal"}, True),
        ("objectives", "click", {"head": "binary", "loss": {"focal": {"gamma": 1}}}, True),
        ("objectives", "click", {"head": "binary", "loss": {"focal": {"gamma": -1}}}, False),
        ("objectives", "click", {"head": "binary", "loss": "huber"}, False),
        ("objectives", "click", {"head": "poisson", "loss": "poisson"}, True),
        ("objectives", "click", {"head": "binary", "metrics": ["log_loss", {"ndcg": 5}],
                                 "group_by": "user"}, True),
        ("objectives", "click", {"head": "binary", "metrics": ["ndcg"]}, False),
        ("objectives", "click", {"head": "binary", "metrics": [{"ndcg": 0}]}, False),
        ("objectives", "click", {"head": "binary", "reduction": "mean_by_row"}, False),
        ("labels", "click", {"dtype": "int64", "shape": [3], "missing": "mask"}, True),
        ("labels", "click", {"dtype": "int64", "missing": "zero"}, False),
        ("objectives", "a/b", {"head": "binary"}, False),
    ],
)  # fmt: skip
def test_entries(section, name, entry, right):
    document = copy.deepcopy(DOCUMENT)
    document[section][name] = entry
    assert CHECK.is_valid(document) == right


@pytest.mark.parametrize("section", ["features", "columns", "groups", "labels", "objectives"])
def test_sections(section):
    document = copy.deepcopy(DOCUMENT)
    assert CHECK.is_valid({**document, "version": 1, "ignored": []})
    assert not CHECK.is_valid({**document, "version": 2})
    assert not CHECK.is_valid({**document, "colums": {}})
    assert not CHECK.is_valid({**document, section: {}})
    del document[section]
    assert not CHECK.is_valid(document)
