"""A warm start between a column with fixed ids and a growing one: rows follow their values."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from tests.conftest import ROOT
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


@pytest.mark.parametrize(
    "mode", ["weights_and_stats", pytest.param("all_but_step", marks=pytest.mark.ci)]
)
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
    with pytest.raises(ek.CheckpointError, match=r"rows was 9, is 6\. Use as many buckets"):
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
    with pytest.raises(ek.CheckpointError, match="got 5 buckets, expected a multiple of"):
        started(folder, tmp_path / "odd", "odd", tmp_path / "before")


@pytest.mark.ci
def test_two_columns_with_one_set_of_ids(tmp_path):
    """From two vocabularies with one list, whose embeddings have one table, and on to more rows."""
    words = {"vocabulary": "city", "list": CITIES[:3]}
    columns = {
        "words": [words, {**words, "vocabulary": "seen"}],
        "growing": [{"growing": "city", **GROWING}, {"growing": "seen", "ids_of": "city"}],
        "more": [{"growing": "city", **GROWING, "rows": 8}, {"growing": "seen", "ids_of": "city"}],
        "other": [words, {**words, "vocabulary": "seen", "list": CITIES[2::-1]}],
    }  # fmt: skip
    for name, (city, seen) in columns.items():
        document = spec_of(city, seen)
        document["features"] = {
            "city": {"dtype": "string"}, "seen": {"dtype": "string", "shape": "variable"}
        }  # fmt: skip
        document["embedding_tables"] = {"cities": {"dimension": 3}}
        document["columns"] = {
            "city": city, "seen": seen, "city_emb": {"embedding": "city", "table": "cities"},
            "seen_emb": {"embedding": "seen", "table": "cities"},
        }  # fmt: skip
        document["groups"] = {"deep": ["city_emb", "seen_emb"], "wide": ["city", "seen"]}
        if name == "other":
            del document["embedding_tables"]
            for each in ("city_emb", "seen_emb"):
                document["columns"][each] = {"embedding": each[:4], "dimension": 3}
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    rows = [{"city": c, "seen": [c, "bern"], "y": i % 2} for i, c in enumerate(CITIES * 40)]
    ek.write_examples(f"{tmp_path}/rows.tfrecord", rows)
    before = trained(tmp_path, tmp_path / "before", "words")
    found, _ = started(tmp_path, tmp_path / "grown", "growing", tmp_path / "before")
    cities = rows_of(found, "city", found["cities"])
    for i, city in enumerate(CITIES[:3]):
        np.testing.assert_array_equal(cities[key_of(city)], before["cities"][i])
    more, report = started(tmp_path, tmp_path / "more", "more", tmp_path / "grown")
    for key, row in rows_of(more, "city", more["cities"]).items():
        if key in cities:
            np.testing.assert_array_equal(row, cities[key])
    assert report["cities"]["rows"] == {"kept": 10, "new": 2, "dropped": 0}
    trained(tmp_path, tmp_path / "others", "other")
    with pytest.raises(ek.CheckpointError, match="columns with other ids: city, seen"):
        started(tmp_path, tmp_path / "no", "growing", tmp_path / "others")


def test_steps_and_waiting_values_count_on_from_night_to_night(tmp_path, caplog):
    """No night has as many steps as `admit_every`, and no value as many readings as `min_count`."""
    city = {"growing": "city", "rows": 2, "buckets": 4, "min_count": 6, "admit_every": 10,
            "evict_every": 20}  # fmt: skip
    document = spec_of(city, {"identity": "shop", "size": 25})
    (tmp_path / "few.json").write_text(json.dumps(document))
    night = ["rome"] * 8 + ["oslo"] * 4 + ["lima"] * 4
    rows = [{"city": name, "shop": 3, "y": i % 2} for i, name in enumerate(night * 5)]
    ek.write_examples(f"{tmp_path}/rows.tfrecord", rows)
    keys = []
    with caplog.at_level("WARNING", "estimator_kit"):
        for number in range(5):
            before = {"warm_start_from": f"{tmp_path}/{number - 1}"} if number else {}
            fields = {"batch_size": 4, "max_steps": 4, "warm_start_mode": "weights", **before}
            found = trained(tmp_path, tmp_path / str(number), "few", **fields)
            assert found["growing/steps_before"] == 4 * number
            keys.append({*found[STATE.format("city", "keys")].tolist()} - {-1})
    # A night reads Rome eight times in steps 1 and 2, Oslo in step 3, Lima in step 4. Step 10 is in
    # the third night, so Rome has 24 readings, and the two others 8: Rome and the smaller key get
    # the rows. At step 20, the third city waits. Rome was last read in step 18, longest ago.
    rome, *others = (key_of(name) for name in ("rome", "oslo", "lima"))
    assert keys[:2] == [set(), set()]
    assert keys[2] == keys[3] == {rome, min(others)}
    assert keys[4] == {*others}
    warned = "so no value of the growing column 'city' gets its own id"
    assert [warned in record.getMessage() for record in caplog.records].count(True) == 1


def test_ids_follow_their_tables_whatever_the_pattern_is(folder, tmp_path):
    source = tmp_path / "before"
    before = trained(folder, source, "growing")
    tables = {"warm_start_vars": ".*embedding_weights|linear/.*"}
    found, _ = started(folder, tmp_path / "tables", "growing", source, **tables)
    for name in ("city", "shop"):
        keys = STATE.format(name, "keys")
        np.testing.assert_array_equal(found[keys], before[keys])
    other = copy.deepcopy(KINDS["growing"])
    other[0]["buckets"] = 8
    (folder / "buckets.json").write_text(json.dumps(spec_of(*other)))
    with pytest.raises(ek.CheckpointError, match="buckets was 4, is 8") as refused:
        started(folder, tmp_path / "refused", "buckets", source)
    (pattern,) = re.findall(r"--warm_start_vars='(.*)'", str(refused.value))
    found, report = started(folder, tmp_path / "rest", "buckets", source, warm_start_vars=pattern)
    assert report[STATE.format("city", "keys")]["status"] == "new"
    assert report[STATE.format("shop", "keys")]["status"] == "restored"
    assert {*found[STATE.format("city", "keys")]} <= {-1, *map(key_with_8, CITIES)}


def key_with_8(city):
    return int(tf.strings.to_hash_bucket_fast(city, (2**63 - 1) // 8 * 8))


def test_the_script_of_the_guide_moves_a_dynamic_embedding(tmp_path):
    guide = (ROOT / "docs/guides/growing_ids.md").read_text("utf-8")
    script = guide.partition("```python\n")[2].partition("```")[0]
    keys = tf.strings.to_hash_bucket_fast(CITIES[:3], 2**63 - 1).numpy()
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for part, own in enumerate(([0, 2], [1])):
            name = f"dnn/item_emb_table/dnn_item_emb_table_mht_{part + 1}of2"
            for what, value in (("keys", keys[own]), ("values", rows[own])):
                tf.compat.v1.get_variable(f"{name}-{what}", initializer=value)
        session.run(tf.compat.v1.global_variables_initializer())
        (tmp_path / "runs").mkdir()
        tf.compat.v1.train.Saver().save(session, str(tmp_path / "runs/old/model.ckpt"), 3)
    (tmp_path / "items.txt").write_text("oslo\nparis\nrome\nlima\n")
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    assert (tmp_path / "vectors.txt").read_text().splitlines() == [
        "oslo\t4.0 5.0 6.0 7.0", "rome\t0.0 1.0 2.0 3.0", "lima\t8.0 9.0 10.0 11.0",
    ]  # fmt: skip
