"""Lookup tables, with the argument names of tf.contrib."""

import tensorflow as tf

from estimator_kit.compat.contrib import lookup

v1 = tf.compat.v1


def run(make):
    with tf.Graph().as_default(), v1.Session() as session:
        result = make()
        session.run(v1.tables_initializer())
        return session.run(result).tolist()


def test_places_of_strings():
    def make():
        table = lookup.index_table_from_tensor(mapping=tf.constant(["a", "b"]), default_value=-1)
        return table.lookup(tf.constant(["b", "zz"]))

    assert run(make) == [1, -1]
    assert run(lambda: lookup.string_to_index(tf.constant(["b"]), tf.constant(["a", "b"]))) == [1]


def test_strings_of_places():
    def make():
        table = lookup.index_to_string_table_from_tensor(mapping=["a", "b"], default_value="?")
        return table.lookup(tf.constant([1, 9], tf.int64))

    assert run(make) == [b"b", b"?"]
    assert run(lambda: lookup.index_to_string(tf.constant([0], tf.int64), ["a"])) == [b"a"]


def test_lines_of_a_file(tmp_path):
    path = tmp_path / "words"
    path.write_text("a\nb\nc\n")

    def make():
        table = lookup.string_to_index_table_from_file(str(path), num_oov_buckets=1, vocab_size=2)
        return table.lookup(tf.constant(["b", "c"]))

    assert run(make) == [1, 2]


def test_a_hash_table_is_filled_by_its_init():
    with tf.Graph().as_default(), v1.Session() as session:
        table = lookup.HashTable(lookup.KeyValueTensorInitializer(["x", "y"], [10, 20]), -1, "same")
        session.run(table.init)
        assert session.run(table.lookup(tf.constant(["y", "n"]))).tolist() == [20, -1]
