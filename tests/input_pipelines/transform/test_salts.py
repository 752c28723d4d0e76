"""Hashes with a salt: several features in one table, each with its own hash."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import feature_specs
from estimator_kit.models import find_model
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform

SIZE = 1000


def spec_of(**salts):
    features = {
        "city": {"dtype": "string", "default": ""},
        "shop": {"dtype": "int64", "default": -1},
        "tags": {"dtype": "string", "shape": "variable"},
    }
    columns = {
        f"{name}_id": {"hash_bucket": name, "size": SIZE, **({"salt": salt} if salt else {})}
        for name, salt in salts.items()
    }
    embeddings = {f"{name}_emb": {"embedding": f"{name}_id", "table": "all"} for name in salts}
    return feature_specs.parse(
        {
            "features": features,
            "embedding_tables": {"all": {"dimension": 4}},
            "columns": {**columns, **embeddings},
            "groups": {"deep": list(embeddings), "wide": list(columns)},
            "labels": {"y": {"dtype": "int64"}},
            "objectives": {"y": {"head": "binary"}},
        }
    )


def ids_of(text):
    return int(tf.strings.to_hash_bucket_fast(text, SIZE))


ROWS = [{"city": "7", "shop": 7, "tags": ["7", "x"]}, {"city": "", "shop": -1, "tags": []}]


def transformed(spec):
    records = [writing.example(row).SerializeToString() for row in ROWS]
    return Transform(spec).features(tf.constant(records))


def test_a_salt_is_hashed_before_the_value():
    found = transformed(spec_of(city="c ", shop="s ", tags=""))
    assert found["city_id"].numpy().tolist() == [ids_of("c 7"), -1]
    assert found["shop_id"].numpy().tolist() == [ids_of("s 7"), -1]
    assert found["tags_id"].to_list() == [[ids_of("7"), ids_of("x")], []]


def test_without_a_salt_equal_values_have_one_id():
    found = transformed(spec_of(city="", shop="", tags=""))
    assert found["city_id"].numpy()[0] == found["shop_id"].numpy()[0] == ids_of("7")


def test_features_with_other_salts_use_one_table():
    spec = spec_of(city="c ", shop="s ", tags="t ")
    model = find_model("dnn")(spec, {"hidden_units": [2]})
    with tf.Graph().as_default():
        records = tf.constant([writing.example(row).SerializeToString() for row in ROWS])
        features = Transform(spec).features(records)
        layer = model.dense_input(features, "deep")
        (table,) = tf.compat.v1.global_variables()
        assert (table.op.name, table.shape) == ("all", [SIZE, 4])
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            table, inputs = session.run([table, layer])
    rows = [table[ids_of(text)] for text in ("c 7", "s 7")]
    rows.append((table[ids_of("t 7")] + table[ids_of("t x")]) / 2)
    np.testing.assert_allclose(inputs[0], np.concatenate(rows), rtol=1e-6)
    np.testing.assert_array_equal(inputs[1], 0)
