"""sasrec, gru4rec and `ModelFn.embedding_table`: causality, padding, tied tables, messages."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.embeddings import table_memory
from estimator_kit.models import find_model

TRAIN, PREDICT = tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.PREDICT


def spec_of(**columns):
    """A catalogue of 6 words and one out-of-vocabulary bucket."""
    return feature_specs.parse(
        {
            "features": {"item": {"dtype": "string", "shape": "variable"}},
            "columns": {
                "item": {"vocabulary": "item", "list": list("abcdef"), "oov_buckets": 1,
                         "sequence": True},
                "item_emb": {"embedding": "item", "dimension": 4},
                **columns,
            },
            "groups": {"steps": ["item_emb", *(n for n in columns)]},
            "labels": {"next": {"dtype": "string", "shape": "variable"}},
            "objectives": {"next": {"head": "next_item", "items": "item"}},
        }
    )  # fmt: skip


def scored(model, batches, mode=TRAIN):
    """What `logits` returns for each batch of ids, from the same variables."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        made = []
        for i, ids in enumerate(batches):
            with tf.compat.v1.variable_scope("", reuse=bool(i)):
                made.append(model.logits({"item": tf.ragged.constant(ids, tf.int64)}, mode))
        session.run(tf.compat.v1.global_variables_initializer())
        names = [v.op.name for v in tf.compat.v1.trainable_variables()]
        return session.run([tuple(m) if m.bias is not None else m[:3] for m in made]), names


@pytest.mark.parametrize("name", ["sasrec", "gru4rec"])
def test_a_state_depends_on_no_later_step_and_on_no_padding(name):
    model = find_model(name)(spec_of(), {"steps_dropout": 0.0})
    (first, padded), _ = scored(model, [[[0, 3, 2]], [[0, 3, 2], [1, 2, 3, 4, 5]]])
    np.testing.assert_allclose(first[0][0], padded[0][0, :3], rtol=1e-5, atol=1e-5)
    assert (padded[0][0, 3:] == 0).all()
    # Positions count from the last step, so only the recurrent model has the same first states.
    (whole, other), _ = scored(model, [[[0, 3, 2]], [[0, 3, 5]]])
    np.testing.assert_allclose(whole[0][0, :2], other[0][0, :2], rtol=1e-5, atol=1e-5)
    assert np.abs(whole[0][0, 2] - other[0][0, 2]).max() > 1e-3


def test_steps_before_the_last_positions_share_one():
    """Then one block cannot see their order."""
    for positions, same in ((2, True), (3, False)):
        params = {"steps_dropout": 0.0, "max_steps": positions, "blocks": 1}
        (found, moved), _ = scored(
            find_model("sasrec")(spec_of(), params), [[[1, 2, 5]], [[2, 1, 5]]]
        )
        assert np.allclose(found[0][0, -1], moved[0][0, -1], atol=1e-6) == same


@pytest.mark.parametrize("pieces", [None, 2])
def test_items_are_scored_with_the_table_of_the_input(pieces):
    """Also if the table is in several pieces. `tied: false` is the exception."""
    with table_memory.split_above(4 * 7 * 4 / 2**20 / pieces if pieces else None):
        model = find_model("gru4rec")(spec_of(), {"recurrent_units": [4]})
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.compat.v1.set_random_seed(1)
            scores = model.logits({"item": tf.ragged.constant([[0, 3], [6]], tf.int64)}, PREDICT)
            assert len(list(scores.table)) == pieces if pieces else scores.table.shape == (7, 4)
            last, some = scores.last(6), scores.of_some(scores.hidden[:, 0], tf.constant([5, 0]))
            session.run(tf.compat.v1.global_variables_initializer())
            hidden, table, last, some = session.run(
                [scores.hidden, tf.convert_to_tensor(scores.table), last, some]
            )
            names = {v.op.name.partition("/part")[0] for v in tf.compat.v1.trainable_variables()}
    np.testing.assert_allclose(last, hidden[[0, 1], [1, 0]] @ table[:6].T, atol=1e-6)
    np.testing.assert_allclose(some, hidden[:, 0] @ table[[5, 0]].T, atol=1e-6)
    assert {n for n in names if n.startswith("items")} == {"items/item/bias"}
    untied = find_model("gru4rec")(spec_of(), {"tied": False, "item_bias": False})
    (found,), names = scored(untied, [[[0]]])
    assert found[2].shape == (7, 4)
    assert [n for n in names if n.startswith("items")] == [
        "items/projection/kernel", "items/projection/bias", "items/item/vectors"
    ]  # fmt: skip


def test_a_model_of_ones_own_reads_the_table_of_a_column():
    class Mean(ek.ModelFn):
        def logits(self, features, mode):
            steps, lengths = self.sequence_input(features, "steps")
            return {"next": ek.StepScores(steps, lengths, self.embedding_table("item_emb"))}

    class Early(Mean):
        def logits(self, features, mode):
            return {"next": ek.StepScores(None, None, self.embedding_table("item_emb"))}

    class Twice(Mean):
        def logits(self, features, mode):
            for scope in ("a", "b"):
                with tf.compat.v1.variable_scope(scope):
                    self.sequence_input(features, "steps")
            return {"next": ek.StepScores(None, None, self.embedding_table("item_emb"))}

    class Wrong(Mean):
        def logits(self, features, mode):
            return {"next": ek.StepScores(None, None, self.embedding_table("item_em"))}

    def ask(model):
        with tf.Graph().as_default():
            tf.compat.v1.train.get_or_create_global_step()
            ids = tf.ragged.constant([[0, 3], [6]], tf.int64)
            return model(spec_of())({"item": ids}, None, PREDICT).predictions

    assert ask(Mean)["next/scores"].shape.as_list() == [2, 6]
    for model, message in (
        (Early, "the model has made no table for the column 'item_emb', expected one. Read a group "
                "with the column first."),
        (Twice, "the model has made several tables: a/sequence_input_layer/"),
        (Wrong, "embedding_table: got the column 'item_em', expected an embedding column. Did you "
                "mean 'item_emb'?"),
    ):  # fmt: skip
        with pytest.raises(ek.ConfigError) as error:
            ask(model)
        assert message in str(error.value)


def test_logits_of_the_last_step_can_also_be_trained():
    class Dense(ek.ModelFn):
        def logits(self, features, mode):
            steps, _ = self.sequence_input(features, "steps")
            return ek.dense_layer(tf.reduce_sum(steps, 1), self.logits_dimension, "logits")

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.train.get_or_create_global_step()
        ids = tf.ragged.constant([[0, 3], [6]], tf.int64)
        labels = tf.ragged.constant([[3, 2], [1]], tf.int64)
        made = Dense(spec_of())({"item": ids}, {"next": labels}, TRAIN)
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run([made.loss, made.train_op])[0] == pytest.approx(np.log(6), rel=0.5)


def test_specs_that_the_models_do_not_support():
    document = spec_of().to_dict()
    other = {**document, "objectives": {"next": {**document["objectives"]["next"], "items": "t"}}}
    other["columns"] = {**other["columns"], "t": {"hash_bucket": "item", "size": 9,
                                                  "sequence": True},
                        "t_hot": {"indicator": "t"}}  # fmt: skip
    other["groups"] = {"steps": ["item_emb"], "more": ["t_hot"]}
    for made, message in (
        (other, "group 'steps' has no embedding of the items, the column 't'. Add one, or set the "
                "model parameter steps_group."),
        ({**document, "labels": {"y": {"dtype": "int64"}}, "objectives": {"y": {"head": "binary"}}},
         "SASRecModel learns one next_item objective, got the heads binary."),
    ):  # fmt: skip
        with pytest.raises(ek.ConfigError) as error:
            find_model("sasrec")(feature_specs.parse(made))
        assert message in str(error.value)


def test_a_table_in_pieces_is_trained_as_one_table():
    """By a sampled loss, which gathers some of its rows."""
    document = spec_of().to_dict()
    # All items of the batch stay, so no step is random.
    document["objectives"]["next"]["loss"] = {"sampled_softmax": {"negatives": "in_batch"}}
    start = np.random.default_rng(2).normal(size=(7, 4)).astype("f")
    after = []
    for pieces in (None, 3):
        model = find_model("sasrec")(
            feature_specs.parse(document),
            {"steps_dropout": 0.0, "blocks": 1, "optimizer": "adagrad"},
        )
        with (
            table_memory.split_above(4 * 7 * 4 / 2**20 / pieces if pieces else None),
            tf.Graph().as_default(),
            tf.compat.v1.Session() as session,
        ):
            tf.compat.v1.set_random_seed(1)
            tf.compat.v1.train.get_or_create_global_step()
            ids = tf.ragged.constant([[0, 3, 5], [6]], tf.int64)
            labels = tf.ragged.constant([[3, 5, 1], [4]], tf.int64)
            made = model({"item": ids}, {"next": labels}, TRAIN)
            session.run(tf.compat.v1.global_variables_initializer())
            trained, row = [], 0
            for v in tf.compat.v1.trainable_variables():
                if "embedding_weights" in v.op.name:
                    v.load(start[row : row + v.shape[0]], session)
                    row += v.shape[0]
                    trained.append(v)
                else:
                    v.load(np.full(v.shape, 0.1), session)
            assert len(trained) == (pieces or 1)
            losses = [session.run([made.loss, made.train_op])[0] for _ in range(3)]
            after.append((losses, np.concatenate(session.run(trained))))
    np.testing.assert_allclose(after[1][0], after[0][0], rtol=1e-5)
    np.testing.assert_allclose(after[1][1], after[0][1], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal((after[0][1] != start).any(axis=1), np.arange(7) != 2)
