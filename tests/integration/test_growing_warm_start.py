"""A warm start between a column with fixed ids and a growing one: rows follow their values."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from tests.integration.test_growing import STATE, variables

CITIES = ["rome", "oslo", "lima", "bern", "kyiv"]
SHOPS = [3, 5, 8, 13, 21]
TABLE = "dnn/input_from_feature_columns/input_layer/{}_embedding/embedding_weights"
WIDE = "linear/linear_model/{}/weights"


def spec_of(city, shop):
    return {
        "features": {"city": {"dtype": "string"}, "shop": {"dtype": "int64"}},
        "columns": {
            "city": {**city},
            "shop": {**shop},
            "city_emb": {"embedding": "city", "dimension": 3},
            "shop_emb": {"embedding": "shop", "dimension": 2},
        },
        "groups": {"deep": ["city_emb", "shop_emb"], "wide": ["city", "shop"]},
        "labels": {"y": {"dtype": "int64"}},
        "objectives": {"y": {"head": "binary"}},
    }


GROWING = {"rows": 6, "buckets": 4, "min_count": 1, "admit_every": 1}
KINDS = {
    "words": ({"vocabulary": "city", "list": CITIES[:4], "oov_buckets": 2},
              {"identity": "shop", "size": 25}),
    "growing": ({"growing": "city", **GROWING}, {"growing": "shop", **GROWING, "rows": 30}),
    "more rows": ({"growing": "city", **GROWING, "rows": 9},
                  {"growing": "shop", **GROWING, "rows": 31}),
    "hash": ({"hash_bucket": "city", "size": 2}, {"identity": "shop", "size": 25}),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("warm")
    random = np.random.default_rng(3)
    rows = [
        {"city": CITIES[random.integers(5)], "shop": SHOPS[random.integers(5)], "y": i % 2}
        for i in range(200)
    ]
    ek.write_examples(f"{folder}/rows.tfrecord", rows)
    for name, columns in KINDS.items():
        (folder / f"{name}.json").write_text(json.dumps(spec_of(*columns)))
    return folder


def trained(folder, target, kind, **changes):
    fields = {
        "mode": "train", "spec": f"{folder}/{kind}.json", "model": "wide_deep",
        "train_files": (f"{folder}/rows.tfrecord",), "model_dir": str(target), "batch_size": 20,
        "max_steps": 5, "shuffle": False, "model_params": {"hidden_units": [4]}, **changes,
    }  # fmt: skip
    ek.run(ek.ExperimentConfig(**fields))
    return variables(target)


def started(folder, target, kind, source, **changes):
    """The variables after a step that moves no weight."""
    still = {"hidden_units": [4], "optimizer": {"sgd": {"learning_rate": 1e-30}}}
    still["linear_optimizer"] = still["optimizer"]
    found = trained(
        folder, target, kind, warm_start_from=str(source), max_steps=1, model_params=still,
        **changes,
    )  # fmt: skip
    report = json.loads((target / "warm_start_report.json").read_text())
    return found, {each["name"]: each for each in report["variables"]}


def rows_of(found, name, table):
    """{key: row} of a growing column."""
    return {
        int(key): table[len(table) - len(found[STATE.format(name, "keys")]) + i]
        for i, key in enumerate(found[STATE.format(name, "keys")])
        if key != -1
    }


def key_of(city):
    return int(tf.strings.to_hash_bucket_fast(city, (2**63 - 1) // 4 * 4))


@pytest.mark.parametrize("mode", ["weights_and_stats", "all_but_step"])
def test_words_become_the_first_rows_and_rows_become_words(folder, tmp_path, mode):
    before = trained(folder, tmp_path / "before", "words")
    source = tmp_path / "before"
    found, report = started(folder, tmp_path / "grown", "growing", source, warm_start_mode=mode)
    for pattern in (TABLE, WIDE):
        cities = rows_of(found, "city", found[pattern.format("city")])
        for i, city in enumerate(CITIES[:4]):
            np.testing.assert_array_equal(cities[key_of(city)], before[pattern.format("city")][i])
        shops = rows_of(found, "shop", found[pattern.format("shop")])
        for shop in SHOPS:
            np.testing.assert_array_equal(shops[shop], before[pattern.format("shop")][shop])
    assert report[STATE.format("city", "keys")]["status"] == "made from words"
    moved = report[TABLE.format("city")]["rows"]
    assert moved == {"kept": 4, "new": 6, "dropped": 2}

    # And back: Kyiv has a row now, and the words have others.
    grown = trained(folder, tmp_path / "again", "growing")
    words = copy.deepcopy(KINDS["words"])
    words[0]["list"] = ["kyiv", "new", *CITIES[:2]]
    (folder / "back.json").write_text(json.dumps(spec_of(*words)))
    found, _ = started(folder, tmp_path / "back", "back", tmp_path / "again", warm_start_mode=mode)
    for pattern in (TABLE, WIDE):
        table, cities = found[pattern.format("city")], grown[pattern.format("city")]
        rows = rows_of(grown, "city", cities)
        for i in (0, 2, 3):
            expected = rows[key_of(words[0]["list"][i])]
            np.testing.assert_array_equal(table[i], expected)
        np.testing.assert_array_equal(table[1], cities[key_of("new") % 4])  # Its bucket.
        shops = rows_of(grown, "shop", grown[pattern.format("shop")])
        for shop in SHOPS:
            np.testing.assert_array_equal(found[pattern.format("shop")][shop], shops[shop])


def test_rows_can_be_added(folder, tmp_path):
    before = trained(folder, tmp_path / "before", "growing")
    found, report = started(folder, tmp_path / "more", "more rows", tmp_path / "before")
    for name in ("city", "shop"):
        old, new = (each[STATE.format(name, "keys")] for each in (before, found))
        np.testing.assert_array_equal(new[: len(old)], old)
        for pattern in (TABLE, WIDE):
            was, now = (rows_of(each, name, each[pattern.format(name)]) for each in (before, found))
            assert was
            for key, row in was.items():
                np.testing.assert_array_equal(now[key], row)
    assert report[STATE.format("city", "keys")]["rows"] == {"kept": 6, "new": 3, "dropped": 0}
    with pytest.raises(
        ek.CheckpointError, match="Use as many buckets as before, and not fewer rows"
    ):
        started(folder, tmp_path / "less", "growing", tmp_path / "more")


def test_a_hash_becomes_the_buckets(folder, tmp_path):
    before = trained(folder, tmp_path / "before", "hash")
    found, report = started(folder, tmp_path / "grown", "growing", tmp_path / "before")
    for pattern in (TABLE, WIDE):
        old, new = (each[pattern.format("city")] for each in (before, found))
        for city in CITIES:
            bucket = int(tf.strings.to_hash_bucket_fast(city, 4))
            assert bucket == key_of(city) % 4
            expected = old[int(tf.strings.to_hash_bucket_fast(city, 2))]
            np.testing.assert_array_equal(new[bucket], expected)
            # After the first step it has a row, which started as its bucket.
            np.testing.assert_array_equal(rows_of(found, "city", new)[key_of(city)], expected)
    assert report[STATE.format("city", "keys")]["status"] == "new"
    odd = copy.deepcopy(KINDS["growing"])
    odd[0]["buckets"] = 5
    (folder / "odd.json").write_text(json.dumps(spec_of(*odd)))
    with pytest.raises(ek.CheckpointError, match="With a multiple of 2 buckets, each"):
        started(folder, tmp_path / "odd", "odd", tmp_path / "before")
