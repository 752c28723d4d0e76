"""Models over fields: each layer compared with NumPy, and groups that they do not support."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model import input_layer
from estimator_kit.models import MODELS, dcn, fm, xdeepfm
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conftest import make_rows
from tests.estimator_kit.models.graphs import evaluate, softmax

FIELDS = np.random.default_rng(2).normal(size=(5, 4, 3)).astype(np.float32)
X = np.random.default_rng(3).normal(size=(5, 6)).astype(np.float32)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.fixture
def fields_document(document):
    document["columns"]["tag_emb"]["dimension"] = 4
    document["columns"]["city_emb"] = {"embedding": "city", "dimension": 4}
    document["groups"]["fields"] = ["user_emb", "tag_emb", "city_emb"]
    return document


def test_pairwise_products_are_the_sum_over_pairs():
    found, _ = evaluate(fm.pairwise_products, FIELDS)
    pairs = itertools.combinations(range(4), 2)
    close(found, sum(FIELDS[:, i] * FIELDS[:, j] for i, j in pairs))


def test_pairwise_products_by_hand():
    found, _ = evaluate(fm.pairwise_products, np.float32([[[1, 2], [3, 4], [5, 6]]]))
    close(found, [[23, 44]])


def test_one_logit_is_the_sum_of_inner_products_and_several_have_weights():
    inner = sum(
        (FIELDS[:, i] * FIELDS[:, j]).sum(1) for i, j in itertools.combinations(range(4), 2)
    )
    found, variables = evaluate(lambda f: fm.pairwise_logits(f, 1), FIELDS)
    close(found[:, 0], inner)
    assert variables == {}
    found, variables = evaluate(lambda f: fm.pairwise_logits(f, 3), FIELDS)
    products, _ = evaluate(fm.pairwise_products, FIELDS)
    close(found, products @ variables["pairwise/kernel"])


@pytest.mark.parametrize(("rank", "experts"), [(None, 1), (2, 1), (2, 3)])
def test_cross_layers(rank, experts):
    x = X[:, ::-1] * 0.5
    found, v = evaluate(lambda x0, x: dcn.cross_layer(x0, x, "c", rank=rank, experts=experts), X, x)
    if rank is None:
        expected = X * (x @ v["c/full/kernel"] + v["c/full/bias"]) + x
    elif experts == 1:
        expected = X * (x @ v["c/v"] @ v["c/u"] + v["c/bias"]) + x
    else:
        gate = softmax(x @ v["c/gate/kernel"])
        expected = x.copy()
        for e in range(experts):
            low = np.tanh(np.tanh(x @ v["c/v"][e]) @ v["c/c"][e])
            expected += gate[:, e : e + 1] * X * (low @ v["c/u"][e] + v["c/bias"])
    close(found, expected)


def test_interactions():
    found, v = evaluate(lambda f: xdeepfm.interactions(f, (5, 2)), FIELDS)
    x, sums = FIELDS, []
    for k, size in enumerate((5, 2)):
        weights = v[f"cin_{k}/kernel"].reshape(x.shape[1], 4, size)
        x = sum(
            x[:, i, None] * FIELDS[:, j, None] * weights[i, j][None, :, None]
            for i in range(x.shape[1])
            for j in range(4)
        )
        sums.append(x.sum(2))
    close(found, np.concatenate(sums, axis=1))


def test_attention_over_fields():
    found, v = evaluate(lambda f: xdeepfm.attention_layer(f, "a", heads=2, dimension=3), FIELDS)
    q, k, val, rest = (FIELDS @ v[f"a/{n}/kernel"] for n in ("query", "key", "value", "residual"))
    heads = []
    for part in (slice(0, 3), slice(3, 6)):
        weights = softmax(np.einsum("nmd,nkd->nmk", q[..., part], k[..., part]))
        heads.append(np.einsum("nmk,nkd->nmd", weights, val[..., part]))
    close(found, np.maximum(np.concatenate(heads, axis=2) + rest, 0))


@pytest.mark.parametrize("name", ["deepfm", "xdeepfm", "autoint"])
def test_a_column_of_two_groups_has_one_table(fields_document, name):
    params = {"deep_group": "deep", "hidden_units": [3]}
    model = MODELS[name](feature_specs.parse(fields_document), params)
    with tf.Graph().as_default():
        records = [writing.example(row).SerializeToString() for row in make_rows(5)]
        model.logits(Transform(model.spec).features(tf.constant(records)), "train")
        tables = [v.op.name for v in tf.compat.v1.global_variables() if "embedding_w" in v.op.name]
    scope = "dnn/input_from_feature_columns/input_layer"
    assert sorted(tables) == [
        f"{scope}/{name}_embedding/embedding_weights" for name in ("city", "tags", "user")
    ]


def test_field_input_stacks_in_the_order_of_the_spec(fields_document):
    class Fields(ek.ModelFn):
        def logits(self, features, mode):
            return self.field_input(features, "fields")

    model = Fields(feature_specs.parse(fields_document))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        records = [writing.example(row).SerializeToString() for row in make_rows(7)]
        features = Transform(model.spec).features(tf.constant(records))
        stacked = model.field_input(features, "fields")
        with tf.compat.v1.variable_scope("", reuse=True):
            flat = model.dense_input(features, "fields")
        session.run(
            [tf.compat.v1.global_variables_initializer(), tf.compat.v1.tables_initializer()]
        )
        stacked, flat = session.run((stacked, flat))
    assert stacked.shape == (7, 3, 4)
    # Side by side they are in the order of their TensorFlow names: city, tags, user.
    close(stacked.reshape(7, 12), np.concatenate([flat[:, 8:], flat[:, 4:8], flat[:, :4]], axis=1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tag_emb": {"embedding": "tag", "dimension": 3}},
         "group 'fields': column 'tag_emb' has the dimension 3, but 'user_emb' has 4. This model "
         "compares fields. Make the dimensions equal."),
        ({"city_emb": {"indicator": "city"}},
         "group 'fields': column 'city_emb' is indicator, but this model reads fields, which are "
         "embeddings. Put an embedding of it into the group instead."),
        ({"city_emb": {"numeric": "price"}},
         "group 'fields': column 'city_emb' is numeric, but this model reads fields, which are "
         "embeddings. Put an embedding of it into the group instead (of a bucketized column)."),
    ],
)  # fmt: skip
def test_groups_that_are_no_fields(fields_document, changes, message):
    fields_document["columns"].update(changes)
    spec = feature_specs.parse(fields_document)
    for name in ("fm", "deepfm", "xdeepfm", "autoint"):
        with pytest.raises(ek.ConfigError) as error:
            MODELS[name](spec)
        assert str(error.value) == message


def test_two_groups_with_two_embeddings_of_one_feature(fields_document):
    fields_document["columns"]["city_wider"] = {"embedding": "city", "dimension": 8}
    fields_document["groups"]["deep"].append("city_wider")
    spec = feature_specs.parse(fields_document)
    for name in ("deepfm", "xdeepfm", "autoint"):
        with pytest.raises(ek.ConfigError) as error:
            MODELS[name](spec, {"deep_group": "deep"})
        assert str(error.value) == (
            "groups 'fields' and 'deep': columns 'city_emb' and 'city_wider' would both have "
            "variables named 'city_embedding', because TensorFlow names a column after its "
            "features, and this model reads both groups together. List the same column in both "
            "groups, or let the model read one group for both, with "
            "--model_params=deep_group=fields."
        )
        MODELS[name](spec, {"deep_group": "fields"})
    del fields_document["columns"]["city_wider"]
    fields_document["groups"]["deep"][-1] = "city_emb"
    MODELS["deepfm"](feature_specs.parse(fields_document))


def test_the_group_that_fits_is_named(fields_document):
    deep = fields_document["groups"].pop("deep")
    fields_document["groups"]["other"] = deep
    fields_document["groups"] = dict(sorted(fields_document["groups"].items()))
    spec = feature_specs.parse(fields_document)
    with pytest.raises(ek.ConfigError) as error:
        MODELS["deepfm"](spec, {"deep_group": "deep"})
    assert str(error.value).endswith(
        "Add the group, or name another one with the model parameter deep_group, as in "
        "--model_params=deep_group=fields."
    ), str(error.value)
    MODELS["deepfm"](spec, {"deep_group": "fields"})


class Clash(ek.ModelFn):
    """Reads two embeddings of one feature: in one call, in one scope, or with reuse."""

    how = "groups"

    def logits(self, features, mode):
        if self.how == "one call":
            dense = input_layer.dense_columns(self.spec, ["city_wider", "city_emb"], features)
            return dense["city_emb"]
        reuse = tf.compat.v1.AUTO_REUSE if self.how == "reuse" else None
        with tf.compat.v1.variable_scope("a", reuse=reuse):
            self.dense_input(features, "wider")
            return self.field_input(features, "fields")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("one call", "columns 'city_emb' and 'city_wider' would both have variables named "
                     "'city_embedding', because TensorFlow names a column after its features, and "
                     "the model reads them in one scope. Read the same column in both places. In "),
        ("groups", "the table of the column 'city_emb' exists already as a/input_from_feature_"),
        ("reuse", "the table of the column 'city_emb' would be a variable in a/input_from_feature_"
                  "columns/input_layer/city_embedding, which another column of the same features "
                  "has made there with another shape. Read each column in another `with tf."),
    ],
)  # fmt: skip
def test_columns_that_clash_in_a_model_of_ones_own(fields_document, monkeypatch, how, message):
    fields_document["columns"]["city_wider"] = {"embedding": "city", "dimension": 8}
    fields_document["groups"]["wider"] = ["city_wider"]
    monkeypatch.setattr(Clash, "how", how)
    model = Clash(feature_specs.parse(fields_document))
    with tf.Graph().as_default():
        tf.compat.v1.train.get_or_create_global_step()
        records = [writing.example(row).SerializeToString() for row in make_rows(7)]
        features, labels = Transform(model.spec).features_and_labels(tf.constant(records))
        with pytest.raises(ek.ConfigError) as error:
            model(features, labels, "train")
    assert message in str(error.value), str(error.value)


def test_a_mixture_needs_a_rank(document):
    with pytest.raises(ek.ConfigError, match="more than one expert needs a rank"):
        MODELS["dcn"](feature_specs.parse(document), {"experts": 2})
