"""Embedding tables in a spec: initializers, shared tables, pretrained vectors, and errors."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from feature_specs import SpecError
from feature_specs.embeddings import initial_values
from feature_specs.reference import columns
from input_pipelines.transform import kinds
from input_pipelines.transform.batch import Batch

DOCUMENT = {
    "features": {
        "words": {"dtype": "string", "shape": "variable"},
        "seen": {"dtype": "string", "shape": "variable"},
        "user": {"dtype": "string", "required": True},
        "weights": {"dtype": "float32", "shape": "variable"},
    },
    "columns": {
        "word": {"vocabulary": "words", "list": ["a", "b", "ü"], "oov_buckets": 1},
        "seen_word": {"vocabulary": "seen", "list": ["a", "b", "ü"], "oov_buckets": 1},
        "user": {"hash_bucket": "user", "size": 3},
        "weighted": {"weighted": "word", "weight": "weights"},
        "word_emb": {"embedding": "weighted", "dimension": 2},
        "seen_emb": {"embedding": "seen_word", "dimension": 2},
        "user_emb": {"embedding": "user", "dimension": 2},
    },
    "groups": {"deep": ["word_emb", "seen_emb", "user_emb"]},
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}


def parse(directory=".", **changes):
    """The spec above with changed fields of its columns; None removes one."""
    document = copy.deepcopy(DOCUMENT)
    tables = {"t": {"dimension": 2}} if any("table" in each for each in changes.values()) else {}
    tables = changes.pop("embedding_tables", tables)
    if tables:
        document["embedding_tables"] = tables
    for name, change in changes.items():
        entry = {**document["columns"][name], **change}
        document["columns"][name] = {k: v for k, v in entry.items() if v is not None}
    return feature_specs.parse(document, directory=directory)


def problem(**changes):
    with pytest.raises(SpecError) as error:
        parse(**changes)
    (line,) = str(error.value).splitlines()[1:]
    return line.strip().removeprefix("<dict>: ")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"weighted": {"weighted": "user"}},
         "columns.weighted.weighted: column 'user' has one value per record, expected a list. "
         "Declare its feature with shape: variable."),
        ({"weighted": {"weight": "wieghts"}},
         "columns.weighted.weight: got 'wieghts', expected a feature. Did you mean 'weights'?"),
        ({"weighted": {"weight": "words"}},
         "columns.weighted.weight: feature 'words' is string with the shape variable, expected "
         "float32 with shape: variable, one weight per id"),
        ({"weighted": {"weighted": "seen_emb"}},
         "columns.weighted.weighted: column 'seen_emb' is embedding, expected a categorical column "
         "for weighted"),
        ({"word_emb": {"embedding": "seen_emb"}},
         "columns.word_emb.embedding: column 'seen_emb' is embedding, expected a categorical "
         "column for embedding"),
        ({"word_emb": {"shared": "t"}},
         "columns.word_emb.shared: shared is no longer an option. Write the table once, in the "
         "section embedding_tables: {t: {dimension: 2}}; and here {embedding: weighted, table: "
         "t}."),
        ({"word_emb": {"table": "t"}},
         "columns.word_emb.dimension: embedding_tables.t says this. Remove it here: "
         "embedding_tables.t.dimension holds for both."),
        ({"word_emb": {"table": "t", "dimension": None, "l2": 0.5}},
         "columns.word_emb.l2: embedding_tables.t is where this belongs. Write it there instead: "
         "embedding_tables.t.l2 holds for both."),
        ({"word_emb": {"table": "t", "dimension": None}, "embedding_tables": {}},
         "columns.word_emb.table: got 't', expected a name of embedding_tables. Add the section, "
         "such as {t: {dimension: 16}}"),
        ({"word_emb": {"table": 3}},
         "columns.word_emb.table: got 3, expected a name of embedding_tables. Use one of: t."),

        ({"word_emb": {"table": "s", "dimension": None}},
         "columns.word_emb.table: got 's', expected a name of embedding_tables. Use one of: t."),
        ({"word_emb": {"dimension": None}},
         "columns.word_emb.dimension: is missing. Set it, or table: a name of embedding_tables."),
        ({"embedding_tables": {"t": {"dimension": 2}}},
         "embedding_tables.t: no embedding has this table. Remove it, or name it in a column: "
         "{embedding: ..., table: t}."),
        ({"embedding_tables": {"t": {"dimension": 0}}, "word_emb": {"table": "t",
          "dimension": None}},
         "embedding_tables.t.dimension: got 0, expected greater than or equal to 1"),
        ({"word_emb": {"table": "t", "dimension": None}, "user_emb": {"table": "t",
          "dimension": None}},
         "columns.user_emb: uses the table 't' as 'word_emb' does, but has 3 ids, and 'word_emb' "
         "has 4. Make them equal."),
        ({"embedding_tables": {"global_step": {"dimension": 2}},
          "word_emb": {"table": "global_step", "dimension": None}},
         "embedding_tables.global_step: is the name of a variable of TensorFlow. Use another "
         "name."),
        ({"word_emb": {"initializer": "ones"}},
         "columns.word_emb.initializer: got 'ones', expected zeros, {truncated_normal: {stddev}}, "
         "{normal: {stddev}}, or {uniform: {min, max}}"),
        ({"word_emb": {"initializer": {"uniform": {"min": 1.0, "max": 1.0}}}},
         "columns.word_emb.initializer.uniform: min must be less than max, got min 1.0 and max "
         "1.0"),
        ({"word_emb": {"max_norm": 0.0}},
         "columns.word_emb.max_norm: got 0.0, expected greater than 0"),
        ({"word_emb": {"trainable": False}},
         "columns.word_emb: trainable: false freezes random vectors. Add pretrained vectors, or "
         "an initializer if random vectors are intended."),
        ({"word_emb": {"pretrained": {}}},
         "columns.word_emb.pretrained: set either `file`, or `checkpoint` and `tensor`"),
        ({"word_emb": {"pretrained": {"checkpoint": "x"}}},
         "columns.word_emb.pretrained: `checkpoint` and `tensor` need each other. Set both."),
    ],
)  # fmt: skip
def test_what_a_broken_column_is_told(changes, message):
    assert problem(**changes) == message


def parse_shared(one, other, directory=".", **columns):
    """Two columns `one` and `other`, whose embeddings share a table."""
    text = {"dtype": "string"}
    document = {
        "features": {
            "s": text, "t": text, "ss": {**text, "shape": "variable"}, "i": {"dtype": "int64"},
            "j": {"dtype": "int64"}, "x": {"dtype": "float32"}, "y": {"dtype": "float32"},
            "xs": {"dtype": "float32", "shape": [3]},
            "w": {"dtype": "float32", "shape": "variable"},
        },
        "embedding_tables": {"table": {"dimension": 2}},
        "columns": {
            **columns, "one": one, "other": other,
            "one_emb": {"embedding": "one", "table": "table"},
            "other_emb": {"embedding": "other", "table": "table"},
        },
        "groups": {"a": ["one_emb"], "b": ["other_emb"]},
        "labels": {"click": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}},
    }  # fmt: skip
    columns = document["columns"].values()
    read = {n for c in columns for v in c.values() for n in (v if isinstance(v, list) else [v])}
    document["features"] = {n: f for n, f in document["features"].items() if n in read}
    return feature_specs.parse(document, directory=directory)


def words_of(feature, *words, **fields):
    return {"vocabulary": feature, "list": list(words), **fields}


@pytest.mark.parametrize(
    "one, other, difference",
    [
        (words_of("s", "a", "b", "c"), words_of("t", "a", "c", "b"),
         "id 1 is 'c' in columns.other.list[1], and 'b' in columns.one.list[1]"),
        ({"vocabulary": "s", "file": "abc.txt"}, {"vocabulary": "t", "file": "acb.txt"},
         "id 1 is 'c' in line 2 of 'acb.txt' of column 'other', and 'b' in line 2 of 'abc.txt' of "
         "column 'one'"),
        ({"vocabulary": "s", "file": "abc.txt"}, words_of("t", "a", "b", "z"),
         "id 2 is 'z' in columns.other.list[2], and 'c' in line 3 of 'abc.txt' of column 'one'"),
        (words_of("s", "a", "b", "c"), words_of("t", "a", "b", oov_buckets=1),
         "words is ['a', 'b'] in column 'other', and ['a', 'b', 'c'] in column 'one'"),
        (words_of("s", "a", "b", default_id=0), words_of("t", "a", "b"),
         "default_id is -1 in column 'other', and 0 in column 'one'"),
        (words_of("s", "a", "b"), {"hash_bucket": "t", "size": 2},
         "kind is 'hash_bucket' in column 'other', and 'vocabulary' in column 'one'"),
        ({"hash_bucket": "s", "size": 2}, words_of("t", "a", "b"),
         "kind is 'vocabulary' in column 'other', and 'hash_bucket' in column 'one'"),
        ({"identity": "i", "size": 2}, words_of("j", 0, 1),
         "kind is 'vocabulary' in column 'other', and 'identity' in column 'one'"),
        ({"identity": "i", "size": 2, "default_id": 0},
         {"identity": "j", "size": 2, "default_id": 1},
         "default_id is 1 in column 'other', and 0 in column 'one'"),
        ({"bucketized": "x", "boundaries": [0.0, 1.0]},
         {"bucketized": "y", "boundaries": [0.0, 2.0]},
         "boundaries is (0.0, 2.0) in column 'other', and (0.0, 1.0) in column 'one'"),
        ({"bucketized": "x", "boundaries": [0.0, 1.0]},
         {"bucketized": "y_log", "boundaries": [0.0, 1.0]},
         "normalizer is [{'log1p': True}] in column 'other', and [] in column 'one'"),
        ({"bucketized": "xs", "boundaries": [0.0]},
         {"bucketized": "y", "boundaries": [0.0, 1.0, 2.0, 3.0, 4.0]},
         "boundaries is (0.0, 1.0, 2.0, 3.0, 4.0) in column 'other', and (0.0,) in column 'one'"),
        ({"crossed": ["s", "t"], "size": 5}, {"crossed": ["s", "i"], "size": 5},
         "keys is ['string', 'int64'] in column 'other', and ['string', 'string'] in column "
         "'one'"),
        ({"crossed": ["s", "t"], "size": 5}, {"crossed": ["t", "s"], "size": 5, "hash_key": 7},
         "hash_key is 7 in column 'other', and None in column 'one'"),
    ],
)  # fmt: skip
def test_a_table_with_two_meanings_is_refused(one, other, difference, tmp_path):
    (tmp_path / "abc.txt").write_text("a\nb\nc\n")
    (tmp_path / "acb.txt").write_text("a\nc\nb\n")
    extra = {}
    if other.get("bucketized") == "y_log":
        extra = {"y_log": {"numeric": "y", "normalizer": ["log1p"]}}
    with pytest.raises(SpecError) as error:
        parse_shared(one, other, tmp_path, **extra)
    assert str(error.value).splitlines()[1].strip() == (
        f"<dict>: columns.other_emb.table: uses the table 'table' as 'one_emb' does, but "
        f"{difference}. An id must mean the same in both. Make them equal, with one list or file "
        "if they are vocabularies; or give each column its own table."
    )


@pytest.mark.parametrize(
    "one, other",
    [
        # Clicked items as steps, and the candidate.
        (words_of("ss", "a", "b", sequence=True), words_of("s", "a", "b")),
        ({"hash_bucket": "ss", "size": 9, "sequence": True}, {"hash_bucket": "s", "size": 9}),
        ({"vocabulary": "s", "file": "ab.txt"}, {"vocabulary": "t", "file": "copy.txt"}),
        ({"vocabulary": "s", "file": "ab.txt"}, words_of("t", "a", "b")),
        ({"vocabulary": "s", "file": "abc.txt", "size": 2}, {"vocabulary": "t", "file": "ab.txt"}),
        # The digits of an integer are its word, and are what is hashed.
        (words_of("s", "1", "2", oov_buckets=1), words_of("i", 1, 2, oov_buckets=1)),
        ({"hash_bucket": "s", "size": 9}, {"hash_bucket": "i", "size": 9}),
        ({"identity": "i", "size": 9}, {"identity": "j", "size": 9}),
        ({"bucketized": "x", "boundaries": [1]}, {"bucketized": "i", "boundaries": [1.0]}),
        ({"crossed": ["s", "i"], "size": 9}, {"crossed": ["t", "j"], "size": 9}),
    ],
)  # fmt: skip
def test_a_table_with_one_meaning_is_shared(one, other, tmp_path):
    for name, words in (("ab", "a\nb\n"), ("copy", "a\nb"), ("abc", "a\nb\nc\n")):
        (tmp_path / f"{name}.txt").write_text(words)
    assert parse_shared(one, other, tmp_path).columns["one_emb"].table == "table"


def test_weights_do_not_change_which_row_a_word_has():
    word = words_of("ss", "a", "b")
    spec = parse_shared({"weighted": "word", "weight": "w"}, words_of("s", "a", "b"), word=word)
    assert spec.size_of("one") == 2
    with pytest.raises(SpecError, match=re.escape("id 0 is 'b' in columns.other.list[0], and 'a'")):
        parse_shared({"weighted": "word", "weight": "w"}, words_of("s", "b", "a"), word=word)


@pytest.mark.ci
@pytest.mark.parametrize("kind", ["hash_bucket", "vocabulary"])
def test_a_word_and_its_digits_look_up_one_row(kind):
    """What `ids_meaning` says of integers, as the transform does it."""
    own = {"size": 1000} if kind == "hash_bucket" else {"oov_buckets": 1000}
    listed = ({}, {}) if kind == "hash_bucket" else ({"list": ["7"]}, {"list": [7]})
    spec = parse_shared({kind: "s", **own, **listed[0]}, {kind: "i", **own, **listed[1]})
    assert spec.columns["one"].ids_meaning(spec) == spec.columns["other"].ids_meaning(spec)
    values = [7, 12, -5, 2**40]
    parsed = {"s": tf.constant([str(v) for v in values]), "i": tf.constant(values, tf.int64)}
    batch = Batch(spec, parsed, kinds.lookup_tables(spec))
    one, other = (kinds.value_of(batch, name).values for name in ("one", "other"))
    assert one.numpy().tolist() == other.numpy().tolist()


def test_a_cross_of_a_weighted_column_names_the_one_under_it():
    document = copy.deepcopy(DOCUMENT)
    document["columns"]["cross"] = {"crossed": ["weighted", "user"], "size": 9}
    document["groups"]["wide"] = ["cross"]
    message = "column 'weighted' is weighted, which cannot be crossed. Cross 'word' instead."
    with pytest.raises(SpecError, match=re.escape(message)):
        feature_specs.parse(document)


def test_a_spec_of_a_newer_version():
    document = {**DOCUMENT, "version": 2, "new_section": {}}
    with pytest.raises(SpecError) as error:
        feature_specs.parse(document)
    assert str(error.value).endswith(
        "version: the spec has version 2, but this estimator_kit reads versions up to 1. Upgrade "
        "estimator_kit."
    )
    assert feature_specs.parse({**DOCUMENT, "version": 1}) == feature_specs.parse(DOCUMENT)


def test_a_spec_with_tables_reads_its_own_document_back():
    spec = parse(
        embedding_tables={
            "t": {"dimension": 2, "initializer": "zeros", "max_norm": 2.0, "trainable": False}
        },
        word_emb={"table": "t", "dimension": None},
        seen_emb={"table": "t", "dimension": None},
        user_emb={"pretrained": {"checkpoint": "model.ckpt-1", "tensor": "table"}},
    )
    assert feature_specs.parse(spec.to_dict()).to_dict() == spec.to_dict()
    assert spec.made_from("word") == ("word", "weighted", "word_emb")


@pytest.mark.parametrize(
    "given, check",
    [
        ("zeros", lambda t: (t == 0).all()),
        ({"uniform": {"min": 2.0, "max": 3.0}}, lambda t: ((t >= 2) & (t < 3)).all()),
        ({"normal": {"stddev": 5.0}}, lambda t: 4 < t.std() < 6 and np.abs(t).max() > 10),
        ({"truncated_normal": {"stddev": 5.0}}, lambda t: np.abs(t).max() <= 10 and t.std() > 3.5),
        (None, lambda t: np.abs(t).max() <= 2 / np.sqrt(2) and t.std() > 0.5),
    ],
)
def test_initializers(given, check):
    from feature_specs.embeddings.initial_values import initializer

    column = parse(user_emb={"initializer": given}).columns["user_emb"]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        assert check(session.run(initializer(column)([5000, 2], dtype=tf.float32)))


# --- Pretrained vectors -------------------------------------------------------------------------


def with_file(tmp_path, text, name="vectors.txt", column="seen_emb"):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return parse(tmp_path, **{column: {"pretrained": {"file": name}}})


def test_a_text_file_gives_the_words_that_it_has(tmp_path):
    table = initial_values.read(
        with_file(tmp_path, "3 2\nü 1 2.5\nother 9 9\na -1 0\n"), "seen_emb"
    )
    np.testing.assert_array_equal(table.values, [[-1, 0], [0, 0], [1, 2.5], [0, 0]])
    np.testing.assert_array_equal(table.known, [True, False, True, False])
    assert (table.unused, table.values.dtype) == (1, np.float32)


def test_a_text_file_for_a_vocabulary_file_with_a_size(tmp_path):
    (tmp_path / "words.txt").write_text("x\ny\nz\n")
    (tmp_path / "vectors.txt").write_text("z 1 1\nx 2 3\n")
    document = copy.deepcopy(DOCUMENT)
    document["columns"]["seen_word"] = {"vocabulary": "seen", "file": "words.txt", "size": 2}
    document["columns"]["seen_emb"]["pretrained"] = {"file": "vectors.txt"}
    table = initial_values.read(feature_specs.parse(document, directory=tmp_path), "seen_emb")
    np.testing.assert_array_equal(table.values, [[2, 3], [0, 0]])
    assert table.unused == 1


def test_an_npy_file_may_leave_out_the_last_ids(tmp_path):
    np.save(tmp_path / "vectors.npy", np.arange(6.0).reshape(3, 2))
    spec = parse(tmp_path, seen_emb={"pretrained": {"file": "vectors.npy"}})
    table = initial_values.read(spec, "seen_emb")
    np.testing.assert_array_equal(table.values, [[0, 1], [2, 3], [4, 5], [0, 0]])
    np.testing.assert_array_equal(table.known, [True, True, True, False])


def checkpoint(tmp_path, values):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("table", initializer=tf.constant(values))
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, str(tmp_path / "old"))
    return {"pretrained": {"checkpoint": "old", "tensor": "table"}}


def test_a_tensor_of_a_checkpoint(tmp_path):
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    table = initial_values.read(parse(tmp_path, seen_emb=checkpoint(tmp_path, values)), "seen_emb")
    np.testing.assert_array_equal(table.values, values)
    assert table.known.all()


def test_the_reference_reading_starts_from_the_vectors_too(tmp_path):
    spec = with_file(tmp_path, "a 7 8\n")
    column = columns.feature_column(spec, "seen_emb")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        table = session.run(column.initializer([4, 2], dtype=tf.float32))
    np.testing.assert_array_equal(table[0], [7, 8])
    assert np.abs(table[1:]).min() > 0
