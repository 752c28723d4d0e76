"""Tables that are larger than the memory are refused before a graph, with the numbers."""

from __future__ import annotations

import pytest

import feature_specs
from estimator_kit.embeddings import table_memory
from estimator_kit.errors import ConfigError

pytestmark = pytest.mark.no_tensorflow


@pytest.fixture
def spec():
    names = ("user", "item", "seen")
    return feature_specs.parse(
        {
            "features": {name: {"dtype": "string", "default": ""} for name in names},
            "embedding_tables": {"items": {"dimension": 8}},
            "columns": {
                "user": {"hash_bucket": "user", "size": 1_000_000_000},
                "item": {"hash_bucket": "item", "size": 1_000},
                "seen": {"hash_bucket": "seen", "size": 1_000},
                "user_emb": {"embedding": "user", "dimension": 10},
                "item_emb": {"embedding": "item", "table": "items"},
                "seen_emb": {"embedding": "seen", "table": "items"},
            },
            "groups": {"deep": ["user_emb", "item_emb", "seen_emb"], "few": ["item_emb"]},
            "labels": {"y": {"dtype": "int64"}},
            "objectives": {"y": {"head": "binary"}},
        }
    )


def test_tables_are_counted_once(spec):
    assert table_memory.table_bytes(spec, ["deep", "few"]) == {
        "user_emb": ("1,000,000,000 x 10", 40_000_000_000),
        "items": ("1,000 x 8", 32_000),
    }
    assert table_memory.table_bytes(spec, ["few", "none"]) == {"items": ("1,000 x 8", 32_000)}


def test_the_keys_of_growing_columns_are_counted():
    columns = {
        "item": {"growing": "item", "rows": 1_000_000, "buckets": 1_000},
        "seen": {"growing": "seen", "ids_of": "item"},
        "item_emb": {"embedding": "item", "dimension": 8},
        "seen_emb": {"embedding": "seen", "dimension": 4},
    }
    spec = feature_specs.parse(
        {
            "features": {name: {"dtype": "int64", "default": -1} for name in ("item", "seen")},
            "columns": columns,
            "groups": {"deep": ["item_emb", "seen_emb"]},
            "labels": {"y": {"dtype": "int64"}},
            "objectives": {"y": {"head": "binary"}},
        }
    )
    assert table_memory.table_bytes(spec, ["deep"]) == {
        "keys of item": ("1,000,000", 64_000_000),
        "item_emb": ("1,001,000 x 8", 32_032_000),
        "seen_emb": ("1,001,000 x 4", 16_016_000),
    }


def test_more_than_the_memory_is_refused(spec):
    needed = 40_000_032_000
    table_memory.check(spec, ["deep"], memory=needed)
    with pytest.raises(ConfigError) as error:
        table_memory.check(spec, ["deep"], memory=16 * 2**30)
    assert str(error.value) == (
        "<dict>: the embedding tables need 37.3 GiB, not counting the optimizer, but this machine "
        "has 16.0 GiB of memory:\n"
        "  user_emb: 1,000,000,000 x 10, 37.3 GiB\n"
        "  items: 1,000 x 8, 0.0 GiB\n"
        "Lower the dimension of an embedding or the size of its column, or train on several "
        "machines with --strategy=parameter_server."
    )
    table_memory.check(spec, ["few"], memory=32_000)


@pytest.mark.parametrize("group", [["big"], ["big_emb"]])
def test_more_rows_than_int32_are_refused(group):
    columns = {
        "big": {"vocabulary": "word", "list": ["a", "b"], "oov_buckets": 2**31 - 2},
        "big_emb": {"embedding": "big", "dimension": 1},
    }
    document = {
        "features": {"word": {"dtype": "string", "default": ""}},
        "columns": columns,
        "groups": {"group": group, "all": list(columns)},
        "labels": {"y": {"dtype": "int64"}},
        "objectives": {"y": {"head": "binary"}},
    }
    with pytest.raises(ConfigError) as error:
        table_memory.check(feature_specs.parse(document), ["group"], memory=2**50)
    assert str(error.value) == (
        f"<dict>: column {group[0]!r} has a table of 2,147,483,648 rows, expected fewer than "
        "2,147,483,648, because gradients in TensorFlow count rows with 32 bits. Lower the size "
        "of 'big'."
    )
    columns["big"]["oov_buckets"] -= 1
    table_memory.check(feature_specs.parse(document), ["group"], memory=2**50)


def test_the_memory_of_this_machine():
    memory = table_memory.machine_memory()
    assert memory is None or memory > 2**20
