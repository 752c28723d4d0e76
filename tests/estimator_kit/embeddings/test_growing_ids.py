"""Growing columns in a graph: which value has which row, compared with a model in NumPy."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import estimator_kit as ek
from estimator_kit.embeddings import growing_ids
from estimator_kit.optimizers.kinds import OPTIMIZERS
from estimator_kit.tf_estimator import ModeKeys
from input_pipelines.transform.transforms import Transform

V1 = tf.compat.v1


class Weighted(ek.ModelFn):
    """The sum of the embedding. The table is the only variable."""

    def logits(self, features, mode):
        return tf.reduce_sum(self.dense_input(features, "deep"), axis=1, keepdims=True)


def spec_of(column=None, *, dtype="int64", shape="variable", embedding=None, **values):
    growing = {"growing": "id", "rows": 4, "buckets": 3, **values}
    return ek.parse_spec(
        {
            "features": {"id": {"dtype": dtype, "shape": shape}},
            "columns": {
                "item": column or growing,
                "emb": {"embedding": "item", "dimension": 2, **(embedding or {})},
            },
            "groups": {"deep": ["emb"]},
            "labels": {"y": {"dtype": "float32"}},
            "objectives": {"y": {"head": "regression"}},
        }
    )


def serialized(rows):
    records = []
    for values, y in rows:
        features = {"y": tf.train.Feature(float_list=tf.train.FloatList(value=[y]))}
        if len(values) and isinstance(values[0], str):
            values = [value.encode() for value in values]
            features["id"] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif len(values):
            features["id"] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        example = tf.train.Example(features=tf.train.Features(feature=features))
        records.append(example.SerializeToString())
    return records


class Session:
    """A model in a session: `step` trains on a batch, `saved` is a checkpoint."""

    def __init__(self, spec, mode=ModeKeys.TRAIN, checkpoint=None, partitions=None, **params):
        self.graph = tf.Graph()
        self.spec = spec
        model = Weighted(spec, {"optimizer": "sgd", "learning_rate": 0.5, **params})
        partitioner = partitions and V1.fixed_size_partitioner(partitions)
        with self.graph.as_default(), V1.variable_scope("", partitioner=partitioner):
            V1.set_random_seed(1)
            self.records = V1.placeholder(tf.string, [None])
            V1.train.get_or_create_global_step()
            features, labels = Transform(spec).features_and_labels(self.records)
            made = model(features, None if mode == ModeKeys.PREDICT else labels, mode)
            self.made = made
            self.found = growing_ids.looked_up(spec, features).get("item")
            self.found = getattr(self.found, "flat_values", self.found)
            self.saver = V1.train.Saver()
            self.session = V1.Session()
            if checkpoint is None:
                self.session.run([V1.global_variables_initializer()])
            else:
                self.saver.restore(self.session, checkpoint)
            self.session.run([V1.local_variables_initializer(), V1.tables_initializer()])
            (self.ids,) = growing_ids._IDS.get(self.graph, {"": None}).values()

    def step(self, *rows):
        return float(self.session.run([self.made.loss, self.made.train_op],
                                      {self.records: serialized(rows)})[0])  # fmt: skip

    def predict(self, *rows):
        (answer,) = (
            value for name, value in self.made.predictions.items() if name.endswith("predictions")
        )
        return self.session.run(answer, {self.records: serialized(rows)}).ravel()

    def value(self, name):
        return self.session.run(f"{name}:0" if ":" not in name else name)

    def variables(self):
        with self.graph.as_default():
            found = {v.op.name: v for v in V1.global_variables()}
            return self.session.run(found)

    def rows(self):
        """{row: (key, count or step)} of the used rows, and {key: count} of the candidates."""
        with self.graph.as_default():
            keys, read, candidates = self.session.run(
                [self.ids.keys, self.ids.readings, self.ids.candidates.export()]
            )
        used = {
            i: (int(key), int(number))
            for i, (key, number) in enumerate(zip(keys, read))
            if key != growing_ids.FREE
        }
        return used, dict(zip(candidates[0].tolist(), candidates[1].tolist()))

    def table(self):
        with self.graph.as_default():
            exported = self.session.run(self.ids.table.export())
        return dict(zip(exported[0].tolist(), exported[1].tolist()))

    def save(self, path):
        with self.graph.as_default():
            return self.saver.save(self.session, str(path))


@dataclasses.dataclass
class Expected:
    """What the docstring of `growing_ids` says, with Python's own dict."""

    column: object
    step: int = 0
    keys: dict = dataclasses.field(default_factory=dict)  # {row: [key, count, last]}
    candidates: dict = dataclasses.field(default_factory=dict)

    def id_of(self, key):
        if key == -1:
            return -1
        for row, (own, _, _) in self.keys.items():
            if own == key:
                return self.column.buckets + row
        return key % self.column.buckets

    def after(self, batch):
        self.step += 1
        rows = {own[0]: own for own in self.keys.values()}
        for key in batch:
            if key in rows:
                rows[key][1] += 1
                rows[key][2] = self.step
            elif key != -1:
                self.candidates[key] = self.candidates.get(key, 0) + 1
        waiting = sorted(
            (key for key, n in self.candidates.items() if n >= self.column.min_count),
            key=lambda key: (-self.candidates[key], key),
        )
        if self.step % self.column.evict_every == 0:
            free = self.column.rows - len(self.keys)
            by = 1 if self.column.evict == "rarest" else 2
            order = sorted(self.keys, key=lambda row: (self.keys[row][by], row))
            for row in order[: max(0, len(waiting) - free)]:
                del self.keys[row]
        if self.step % self.column.admit_every == 0:
            free = [row for row in range(self.column.rows) if row not in self.keys]
            for row, key in zip(free, waiting):
                self.keys[row] = [key, self.candidates.pop(key), self.step]
            kept = sorted(self.candidates, key=lambda key: (-self.candidates[key], key))
            for key in kept[self.column.rows :]:
                del self.candidates[key]


batches = st.lists(
    st.lists(st.lists(st.integers(-1, 11), max_size=4), min_size=1, max_size=4), max_size=9
)


@settings(max_examples=25, deadline=None)
@given(
    batches, st.sampled_from(["oldest", "rarest"]), st.integers(1, 3), st.integers(1, 3),
    st.integers(1, 4), st.integers(0, 8),
)  # fmt: skip
def test_rows_are_given_and_taken_as_described(
    tmp_path_factory, stream, evict, min_count, admit_every, evict_every, killed_after
):
    spec = spec_of(
        evict=evict, min_count=min_count, admit_every=admit_every, evict_every=evict_every
    )
    expected = Expected(spec.columns["item"])
    session = Session(spec)
    for number, batch in enumerate(stream):
        if number == killed_after:  # It goes on from the checkpoint.
            path = session.save(tmp_path_factory.mktemp("model") / "m")
            session = Session(spec, checkpoint=path)
        keys = [key for values in batch for key in values]
        found = session.session.run(
            session.found, {session.records: serialized([(values, 0.0) for values in batch])}
        )
        assert found.tolist() == [expected.id_of(key) for key in keys]
        session.step(*[(values, 0.0) for values in batch])
        expected.after(keys)
        used, candidates = session.rows()
        by = 1 if evict == "rarest" else 2
        assert used == {row: (own[0], own[by]) for row, own in expected.keys.items()}
        assert candidates == expected.candidates
        assert session.table() == {key: row for row, (key, _) in used.items()}


def rows_of(session, suffix=""):
    """{variable: its value} of the table and its slots, joined if the table has parts."""
    found = {}
    for name, value in session.variables().items():
        if "embedding_weights" in name and value.ndim == 2:
            whole = re.sub(r"/part_\d+", "", name)
            found.setdefault(whole, []).append((name, value))
    return {
        name: np.concatenate([value for _, value in sorted(parts)]) for name, parts in found.items()
    }


@pytest.mark.parametrize("partitions", [None, 3])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_it_trains_like_a_table_of_a_vocabulary(optimizer, partitions):
    """All values have their ids from the start, in the order of the vocabulary."""
    grown = Session(
        spec_of(embedding={"initializer": "zeros"}, rows=4, buckets=3),
        optimizer=optimizer, partitions=partitions,
    )  # fmt: skip
    fixed = Session(
        spec_of({"identity": "id", "size": 7}, embedding={"initializer": "zeros"}),
        optimizer=optimizer, partitions=partitions,
    )  # fmt: skip
    with grown.graph.as_default():
        grown.session.run(grown.ids.keys.assign([13, 14, 15, 16]))
        grown.session.run(growing_ids._rebuild(grown.ids))
    random = np.random.default_rng(3)
    for _ in range(6):
        batch = [(random.integers(3, 7, random.integers(0, 4)), y) for y in random.normal(size=5)]
        losses = [
            grown.step(*[([int(v) + 10 for v in values], y) for values, y in batch]),
            fixed.step(*[([int(v) for v in values], y) for values, y in batch]),
        ]
        assert losses[0] == losses[1]
    ours, theirs = rows_of(grown), rows_of(fixed)
    assert len(ours) == len(theirs)
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], name)


@pytest.mark.parametrize("partitions", [None, 2])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_row_starts_as_its_bucket_and_ends_with_its_slots(optimizer, partitions):
    session = Session(
        spec_of(rows=1, buckets=2, min_count=2, admit_every=2, evict_every=4),
        optimizer=optimizer, partitions=partitions, moving_average=0.5,
    )  # fmt: skip
    start = rows_of(session)
    session.step(([6], 1.0))
    session.step(([6], 1.0))  # Its bucket has learned twice. Then 6 gets row 2.
    first = rows_of(session)
    for name, value in first.items():
        if "Moving" in name or "Ftrl" in name or name.endswith("embedding_weights"):
            np.testing.assert_array_equal(value[2], value[0], name)
            np.testing.assert_array_equal(value[1], start[name][1], name)
        else:
            np.testing.assert_array_equal(value[2], start[name][2], name)
    session.step(([6, 9], 1.0))  # 9 is in bucket 1, because row 2 is not free.
    trained = rows_of(session)
    assert any((trained[name][2] != value[2]).any() for name, value in first.items())
    session.step(([9], 1.0))  # 9 waits, so 6 loses its row, and 9 gets it.
    last = rows_of(session)
    assert session.rows()[0] == {0: (9, 4)}
    for name, value in last.items():
        if "Moving" in name or "Ftrl" in name or name.endswith("embedding_weights"):
            np.testing.assert_array_equal(value[2], value[1], name)
        else:
            np.testing.assert_array_equal(value[2], start[name][2], name)


@pytest.mark.parametrize("dtype", ["string", "int64"])
def test_evaluation_and_predictions_look_up_the_same_rows(tmp_path, dtype):
    spec = spec_of(dtype=dtype, min_count=1, admit_every=1)
    known = [1, 2] if dtype == "int64" else ["a", "b"]
    new = 8 if dtype == "int64" else "h"
    session = Session(spec)
    for _ in range(3):
        session.step((known[:1], 1.0), (known[1:], -1.0))
    path = session.save(tmp_path / "m")
    rows = [(known[:1], 0.0), (known[1:], 0.0), ([new], 0.0), ([], 0.0)]
    found = Session(spec, ModeKeys.PREDICT, path).predict(*rows)
    (table,) = rows_of(session).values()
    keys = [
        value
        if dtype == "int64"
        else int(tf.strings.to_hash_bucket_fast(value, (2**63 - 1) // 3 * 3))
        for value in (*known, new)
    ]
    rows = {key: row for row, (key, _) in session.rows()[0].items()}
    expected = [table[3 + rows[key]].sum() for key in keys[:2]]
    expected += [table[keys[2] % 3].sum(), 0.0]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    evaluated = Session(spec, ModeKeys.EVAL, path)
    assert evaluated.rows is not None and evaluated.table() == session.table()


def test_predictions_without_any_key_use_the_buckets(tmp_path):
    session = Session(spec_of())  # No value has been read as often as `min_count`.
    path = session.save(tmp_path / "m")
    found = Session(spec_of(), ModeKeys.PREDICT, path).predict(([7], 0.0), ([], 0.0))
    (table,) = rows_of(session).values()
    np.testing.assert_allclose(found, [table[7 % 3].sum(), 0.0], rtol=1e-6)


def test_steps_have_a_known_width():
    spec = spec_of({"growing": "id", "rows": 4, "buckets": 3, "sequence": True})
    with tf.Graph().as_default():
        features = Transform(spec).features(tf.constant(serialized([([5], 0.0), ([], 0.0)])))
        found = growing_ids.looked_up(spec, features)["item"].to_tensor()
    assert found.shape.rank == 2


def test_two_features_with_one_set_of_ids():
    spec = ek.parse_spec(
        {
            "features": {
                "item": {"dtype": "string", "default": ""},
                "before": {"dtype": "string", "shape": "variable"},
            },
            "embedding_tables": {"table": {"dimension": 2}},
            "columns": {
                "before_ids": {"growing": "before", "ids_of": "item_ids"},
                "item_ids": {"growing": "item", "rows": 4, "buckets": 3, "min_count": 2,
                             "admit_every": 1},
                "item_emb": {"embedding": "item_ids", "table": "table"},
                "before_emb": {"embedding": "before_ids", "table": "table"},
            },
            "groups": {"deep": ["item_emb", "before_emb"]},
            "labels": {"y": {"dtype": "float32"}},
            "objectives": {"y": {"head": "regression"}},
        }
    )  # fmt: skip
    with tf.Graph().as_default():
        features = {
            "item_ids": tf.constant([5, -1], tf.int64),
            "before_ids": tf.ragged.constant([[7, 5], []], tf.int64),
        }
        with growing_ids.in_mode(ModeKeys.TRAIN):
            found = growing_ids.looked_up(spec, features)
            step = growing_ids.after_step(V1.assign_add(V1.train.get_or_create_global_step(), 1).op)
        with V1.Session() as session:
            session.run([V1.global_variables_initializer(), V1.local_variables_initializer()])
            session.run(V1.tables_initializer())
            before, _ = session.run([found, step])
            after = session.run(found)
    assert before["item_ids"].tolist() == [2, -1]
    assert before["before_ids"].flat_values.tolist() == [1, 2]
    assert after["item_ids"].tolist() == [3, -1]
    assert after["before_ids"].to_list() == [[1, 3], []]


def test_accumulated_gradients_never_belong_to_another_value():
    spec = spec_of(admit_every=4, evict_every=6)
    with pytest.raises(
        ek.ConfigError, match=r"accumulate is 4, and evict_every .* is 6, expected a"
    ):
        Weighted(spec, {"accumulate": 4})
    Weighted(spec, {"accumulate": 2})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": {"growing": "id", "rows": 4}, "b": {"growing": "id", "rows": 5}},
         "b.growing: column 'a' gives ids to the values of 'id', too. Write {growing: id, ids_of: "
         "a}."),
        ({"a": {"growing": "id", "rows": 4}, "b": {"growing": "text", "ids_of": "a"}},
         "b.ids_of: column 'a' reads int64, and this one string, whose keys differ"),
        ({"a": {"growing": "id", "rows": 4}, "b": {"growing": "id", "ids_of": "a", "rows": 4}},
         "b.rows: columns.a says this. Remove it here: columns.a.rows holds for both."),
        ({"a": {"growing": "id", "rows": 0}, "b": {"growing": "id", "ids_of": "a"}},
         "1 problem in the feature spec"),
        ({"a": {"growing": "id", "rows": 4}, "b": {"growing": "id", "ids_of": 3}},
         "b.ids_of: got 3, expected the name of a growing column without ids_of. Use one of: a."),
        ({"a": {"growing": "id", "rows": 4},
          "b": {"embedding": "a", "dimension": 2, "trainable": False, "initializer": "zeros"}},
         "b.trainable: column 'a' is growing: a new row would keep the vector of its bucket."),
        ({"a": {"growing": "id", "rows": 4}, "b": {"growing": "id", "ids_of": "c"}},
         "b.ids_of: got 'c', expected the name of a growing column without ids_of. Use one of: a."),
        ({"a": {"growing": "id", "rows": 4}, "b": {"growing": "id", "ids_of": "a"},
          "c": {"growing": "id", "ids_of": "b"}}, "c.ids_of: got 'b', expected"),
        ({"a": {"growing": "number", "rows": 4}}, "expected string or int64. Use a bucketized"),
        ({"a": {"growing": "id"}}, "rows"),
        ({"a": {"growing": "id", "rows": 0}}, "a.rows: got 0, expected greater than or equal to 1"),
        ({"a": {"growing": "id", "rows": 4}, "b": {"crossed": ["a", "text"], "size": 9}},
         "column 'a' is growing, expected the feature 'id' itself"),
        ({"a": {"dynamic_embedding": "id", "dimension": 4}}, "growing"),
    ],
)  # fmt: skip
def test_bad_columns_are_refused(columns, message):
    with pytest.raises(ek.SpecError) as error:
        ek.parse_spec(
            {
                "features": {
                    "id": {"dtype": "int64"}, "text": {"dtype": "string"},
                    "number": {"dtype": "float32"},
                },
                "columns": {**columns, "n": {"numeric": "number"}}, "groups": {"deep": ["n"]},
                "labels": {"y": {"dtype": "float32"}}, "objectives": {"y": {"head": "regression"}},
            }
        )  # fmt: skip
    assert message in str(error.value)
