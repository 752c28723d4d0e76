"""Dynamic embeddings in a graph: which values have a row, what a step does to it, what goes."""

from __future__ import annotations

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.embeddings import dynamic_tables
from estimator_kit.tf_estimator import ModeKeys
from input_pipelines.transform.transforms import Transform
from tests.conftest import needs_dynamic_embeddings

needs_dynamic_embeddings()

WEIGHTS = [1.0, -2.0]


class Weighted(ek.ModelFn):
    """The sum of the embedding times (1, -2). The table is the only variable."""

    def logits(self, features, mode):
        dense = self.dense_input(features, "deep")
        self.add_output("vectors", tf.identity(dense))
        return tf.reduce_sum(dense[:, :2] * WEIGHTS, axis=1, keepdims=True)


def spec_of(column, *others, dtype="int64", shape=None):
    feature = {"dtype": dtype, **({"shape": shape} if shape else {})}
    if shape is None:
        feature["default"] = -1 if dtype == "int64" else ""
    columns = {"emb": column, **{name: entry for other in others for name, entry in other.items()}}
    return ek.parse_spec(
        {
            "features": {"id": feature},
            "columns": columns,
            "groups": {"deep": [n for n in columns if "dimension" in columns[n]]},
            "labels": {"y": {"dtype": "float32"}},
            "objectives": {"y": {"head": "regression"}},
        }
    )


def dynamic(**values):
    return {"dynamic_embedding": "id", "dimension": 2, "initializer": "zeros", **values}


def serialized(rows):
    records = []
    for value, y in rows:
        values = value if isinstance(value, list) else [] if value is None else [value]
        if values and isinstance(values[0], str):
            feature = tf.train.Feature(
                bytes_list=tf.train.BytesList(value=[v.encode() for v in values])
            )
        else:
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        entries = {"y": tf.train.Feature(float_list=tf.train.FloatList(value=[y]))}
        if values:
            entries["id"] = feature
        example = tf.train.Example(features=tf.train.Features(feature=entries))
        records.append(example.SerializeToString())
    return records


class Trained:
    """A model in a session: `step` trains on a batch, `tables` tells what it holds."""

    def __init__(self, spec, **params):
        self.graph = tf.Graph()
        self.model = Weighted(spec, {"optimizer": "sgd", "learning_rate": 0.5, **params})
        with self.graph.as_default():
            tf.compat.v1.set_random_seed(1)
            self._records = tf.compat.v1.placeholder(tf.string, [None])
            tf.compat.v1.train.get_or_create_global_step()
            features, labels = Transform(spec).features_and_labels(self._records)
            made = self.model(features, labels, ModeKeys.TRAIN)
            self._ops = (made.loss, made.train_op)
            self.variables = tf.compat.v1.trainable_variables()
            self.saver = tf.compat.v1.train.Saver()
            self.session = tf.compat.v1.Session()
            self.session.run(
                [
                    tf.compat.v1.global_variables_initializer(),
                    tf.compat.v1.local_variables_initializer(),
                    tf.compat.v1.tables_initializer(),
                ]
            )
            own = [v for v in self.variables if dynamic_tables.is_dynamic(v)]
            self._table = own[0].params.estimator_kit_table if own else None
            if own:
                self._rows = self._table.rows.export()
                self._seen = self._table.seen.export() if self._table.seen is not None else None

    def step(self, *rows):
        return float(self.session.run(self._ops, {self._records: serialized(rows)})[0])

    def save(self, folder):
        with self.graph.as_default():
            return self.saver.save(self.session, str(folder / "model"))

    def rows(self):
        """{key: vector}"""
        keys, values = self.session.run(self._rows)
        return dict(zip(keys.tolist(), values.tolist()))

    def seen(self):
        """{key: (count, step)}"""
        keys, values = self.session.run(self._seen)
        return dict(zip(keys.tolist(), map(tuple, values.tolist())))


@pytest.fixture
def train():
    made = []

    def make(*arguments, **params):
        made.append(Trained(*arguments, **params))
        return made[-1]

    yield make
    for trained in made:
        trained.session.close()


def predicted(trained, tmp_path, *rows):
    """The vectors of rows in a graph that only reads, restored from a checkpoint."""
    path = trained.save(tmp_path)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.get_or_create_global_step()
        records = tf.constant(serialized(rows))
        made = trained.model(Transform(trained.model.spec).features(records), mode="infer")
        tf.compat.v1.train.Saver().restore(session, path)
        session.run(tf.compat.v1.tables_initializer())
        return session.run(made.predictions["vectors"]).tolist()


def test_a_step_makes_rows_of_new_values_and_moves_them_against_the_gradient(train, tmp_path):
    trained = train(spec_of(dynamic()))
    # The loss is the mean of (0 - y)^2; its gradient by a logit is 2 (0 - y) / 3.
    assert trained.step((7, 3.0), (2**40, -1.5), (-1, 0.0)) == pytest.approx((9 + 2.25) / 3)
    # 0.5 * 2 * 3 / 3 = 1 and -0.5, times (1, -2).
    assert trained.rows() == {7: [1.0, -2.0], 2**40: [-0.5, 1.0]}
    # A value that was never read, and none at all, have the zero vector.
    found = predicted(trained, tmp_path, (7, 0.0), (8, 0.0), (-1, 0.0), (2**40, 0.0))
    assert found == [[1.0, -2.0], [0.0, 0.0], [0.0, 0.0], [-0.5, 1.0]]


def test_a_batch_without_values_is_no_error(train):
    trained = train(spec_of(dynamic()))
    assert trained.step((-1, 2.0)) == 4.0
    assert trained.rows() == {}


def test_lists_are_combined_over_the_values_that_have_a_row(train, tmp_path):
    trained = train(spec_of(dynamic(), shape="variable"))
    trained.step(([4], 1.0))
    trained.step(([6], 2.0))
    # 0.5 * 2 * y
    assert trained.rows() == {4: [1.0, -2.0], 6: [2.0, -4.0]}
    found = predicted(trained, tmp_path, ([4, 6], 0.0), ([4, 5], 0.0), ([], 0.0), ([5], 0.0))
    assert found == [[1.5, -3.0], [1.0, -2.0], [0.0, 0.0], [0.0, 0.0]]


def test_strings_have_the_key_of_their_fingerprint(train):
    trained = train(spec_of(dynamic(), dtype="string"))
    trained.step(("ann", 1.0), ("", 1.0))
    (key,) = trained.rows()
    assert key == tf.strings.to_hash_bucket_fast("ann", 2**63 - 1).numpy()


def test_a_value_gets_its_row_when_it_was_read_often_enough(train, tmp_path):
    trained = train(spec_of(dynamic(min_count=3)))
    # Twice in one batch counts twice.
    trained.step((5, 1.0), (5, 1.0), (6, 1.0), (7, 1.0))
    assert trained.rows() == {}
    assert trained.seen() == {5: (2, 1), 6: (1, 1), 7: (1, 1)}
    assert predicted(trained, tmp_path, (5, 0.0)) == [[0.0, 0.0]]
    # The third reading is the first to train it: 0.5 * 2 * 1 / 2.
    trained.step((5, 1.0), (6, 1.0))
    assert trained.rows() == {5: [0.5, -1.0]}
    assert trained.seen() == {5: (3, 2), 6: (2, 2), 7: (1, 1)}


@pytest.mark.parametrize("evict, left", [("oldest", {3, 4}), ("rarest", {1, 4})])
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_an_eviction_leaves_max_rows(train, evict, left, optimizer):
    column = dynamic(max_rows=2, evict=evict, evict_every=4)
    trained = train(spec_of(column), optimizer=optimizer)
    trained.step((1, 1.0), (1, 1.0), (1, 1.0), (2, 1.0))
    trained.step((3, 1.0))
    trained.step((4, 1.0))
    assert set(trained.rows()) == {1, 2, 3, 4}
    trained.step((4, 1.0))
    assert set(trained.rows()) == set(trained.seen()) == left
    if optimizer == "adagrad":
        assert set(slots(trained)) == left
    # An id that comes again starts again.
    trained.step((2, 1.0))
    assert set(trained.rows()) == {2, *left} and trained.seen()[2] == (1, 5)
    if optimizer == "sgd":
        assert trained.rows()[2] == [1.0, -2.0]


def slots(trained):
    """Keys of the accumulator."""
    (table,) = [
        table for table in trained.graph.get_collection(tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS)
        if "Adagrad" in table.name
    ]  # fmt: skip
    return trained.session.run(table.specs[0].tensor).tolist()


def test_an_eviction_also_forgets_values_that_wait_for_a_row(train):
    trained = train(spec_of(dynamic(max_rows=1, min_count=2, evict_every=3)))
    trained.step((1, 1.0), (1, 1.0))
    trained.step((2, 1.0))
    trained.step((3, 1.0))
    assert trained.seen() == {1: (2, 1), 3: (1, 3)}
    assert set(trained.rows()) == {1}


def test_shards_are_by_the_key_and_evicted_each_by_itself(train):
    trained = train(spec_of(dynamic(shards=2, max_rows=2, evict_every=2)))
    trained.step((1, 1.0), (2, 1.0), (3, 1.0))
    trained.step((4, 1.0), (6, 1.0), (3, 1.0))
    # Of each half one: 3 was read last; 4 and 6 at once, so either.
    assert set(trained.rows()) in ({3, 4}, {3, 6})


@pytest.mark.parametrize(
    "optimizer", ["adadelta", "adagrad", "adam", "ftrl", "lazy_adam", "momentum", "rmsprop", "sgd"]
)
def test_steps_are_those_on_a_table_of_fixed_size(train, optimizer):
    fixed = spec_of(
        {"embedding": "known", "dimension": 2, "initializer": "zeros"},
        {"known": {"identity": "id", "size": 10}},
    )
    # Adam moves all rows of a fixed table. In a dynamic table it moves the rows of the batch, like
    # lazy_adam.
    like = "lazy_adam" if optimizer == "adam" else optimizer
    ours, theirs = train(spec_of(dynamic()), optimizer=optimizer), train(fixed, optimizer=like)
    batches = [
        [(1, 1.0), (2, -1.0)], [(1, 3.0), (1, 2.0), (5, 1.0)], [(2, 1.0)], [(5, -2.0), (1, 0.0)],
    ]  # fmt: skip
    for batch in batches * 2:
        assert ours.step(*batch) == pytest.approx(theirs.step(*batch), rel=1e-5)


def test_new_rows_are_drawn_by_the_initializer(train):
    trained = train(spec_of(dynamic(initializer={"uniform": {"min": 2.0, "max": 3.0}})),
                    learning_rate=1e-9)  # fmt: skip
    trained.step(*((i, 0.0) for i in range(50)))
    numbers = [n for row in trained.rows().values() for n in row]
    assert len(numbers) == 100 == len(set(numbers))
    assert 2 <= min(numbers) < 2.2 and 2.8 < max(numbers) <= 3


def test_clipping_is_of_the_rows_too(train):
    trained = train(spec_of(dynamic()), clip_value=0.25, learning_rate=1.0)
    trained.step((1, 1.0))
    assert trained.rows() == {1: [0.25, -0.25]}


def test_a_restored_table_is_the_one_that_was_saved(train, tmp_path):
    spec = spec_of(dynamic(shards=3, min_count=1, max_rows=100))
    trained = train(spec, optimizer="adagrad")
    for i in range(5):
        trained.step((i, 1.0), (2 * i, -1.0))
    path = trained.save(tmp_path)
    other = train(spec, optimizer="adagrad")
    other.step((77, 1.0))  # Goes, as a variable's value would.
    with other.graph.as_default():
        other.saver.restore(other.session, path)
    assert other.rows() == trained.rows() and other.seen() == trained.seen()
    assert other.step((1, 1.0), (9, 5.0)) == trained.step((1, 1.0), (9, 5.0))
    assert other.rows() == trained.rows()


def test_a_frozen_table_is_refused(train):
    spec = spec_of(dynamic(), {"known": {"identity": "id", "size": 9}},
                   {"fixed": {"embedding": "known", "dimension": 2}})  # fmt: skip
    with pytest.raises(
        ek.ConfigError, match=r"^freeze: .*/emb/.* is a dynamic embedding, which cannot be frozen"
    ):
        train(spec, freeze=[".*/emb/"])


def test_only_a_model_fn_reads_one():
    from estimator_kit.model import input_layer

    spec = spec_of(dynamic())
    with (
        tf.Graph().as_default(),
        pytest.raises(
            ek.ConfigError,
            match="column 'emb' is a dynamic_embedding, which only a ModelFn can read",
        ),
    ):
        input_layer.dense_input(spec, "deep", {"emb": tf.constant([1], tf.int64)})


def test_a_train_op_that_goes_past_the_table_is_refused():
    class Own(Weighted):
        def train_op(self, loss):
            step = tf.compat.v1.train.get_global_step()
            return tf.compat.v1.assign_add(step, 1).op

    spec = spec_of(dynamic())
    with (
        tf.Graph().as_default(),
        pytest.raises(
            ek.ConfigError,
            match=r"the train_op does not train the dynamic embedding .*ek\.minimize",
        ),
    ):
        tf.compat.v1.train.get_or_create_global_step()
        features, labels = Transform(spec).features_and_labels(tf.constant(serialized([(1, 1.0)])))
        Own(spec)(features, labels, ModeKeys.TRAIN)


@pytest.mark.parametrize(
    "params, message",
    [
        ({"accumulate": 2}, "the model parameter accumulate cannot be combined with the "
                            "dynamic_embedding 'emb', whose gradients have different rows in each "
                            "batch. Remove the parameter."),
        ({"moving_average": 0.9}, "the model parameter moving_average cannot be combined with the "
                                  "dynamic_embedding 'emb', whose rows are added and evicted. "
                                  "Remove the parameter."),
    ],
)  # fmt: skip
def test_parameters_that_do_not_go_with_one(params, message):
    with pytest.raises(ek.ConfigError) as error:
        Weighted(spec_of(dynamic()), params)
    assert str(error.value) == message


def test_shards_lie_on_the_servers_in_turn():
    with dynamic_tables.on_servers(2):
        first, second, third = dynamic_tables._devices("user_emb", 3)
    assert {first, second} == {f"/job:ps/replica:0/task:{i}/CPU:0" for i in range(2)}
    assert third == first
    assert dynamic_tables._devices("user_emb", 2) == ["/CPU:0", "/CPU:0"]
