"""The embedding tables of a checkpoint as the files that TensorBoard's page Projector reads."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf

import feature_specs
from estimator_kit.observing.tensorboard import ending

DOCUMENT = {
    "features": {
        "city": {"dtype": "string"},
        "user": {"dtype": "string"},
        "friend": {"dtype": "string"},
    },
    "embedding_tables": {"users": {"dimension": 2}},
    "columns": {
        "city": {"vocabulary": "city", "list": ["rome", "new\tyork", " "], "oov_buckets": 1},
        "user": {"hash_bucket": "user", "size": 5},
        "city_emb": {"embedding": "city", "dimension": 2},
        "user_emb": {"embedding": "user", "dimension": 3},
        "friend": {"hash_bucket": "friend", "size": 5},
        "shared_emb": {"embedding": "user", "table": "users"},
        "friend_emb": {"embedding": "friend", "table": "users"},
    },
    "groups": {"deep": ["city_emb", "user_emb", "shared_emb", "friend_emb"]},
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}
CITY = "dnn/input_layer/city_embedding/embedding_weights"
USER = "dnn/input_layer/user_embedding/embedding_weights"
VARIABLES = {
    CITY: np.arange(8).reshape(4, 2) / 4, f"{CITY}/Adagrad": np.ones((4, 2)), USER: np.ones((5, 3)),
    f"{USER}/Adam_1": np.ones((5, 3)), "users": np.full((5, 2), 1 / 3),
    "users/Adagrad": np.ones((5, 2)), "dnn/hiddenlayer_0/kernel": np.ones((7, 4)),
}  # fmt: skip


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name, value in VARIABLES.items():
            tf.compat.v1.get_variable(name, initializer=value.astype(np.float32))
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, str(folder / "model.ckpt"), global_step=3)
    (folder / "eval").mkdir()
    (folder / "eval" / "events.out.tfevents.1").touch()
    return folder


def test_only_tables_with_their_words(checkpoint):
    names = ending.write_projector(str(checkpoint), feature_specs.parse(DOCUMENT))
    assert names == [CITY, USER, "users"]
    config = (checkpoint / "projector_config.pbtxt").read_text()
    city = "projector/dnn_input_layer_city_embedding_embedding_weights"
    user = "projector/dnn_input_layer_user_embedding_embedding_weights"
    assert config == (
        'model_checkpoint_path: "/dev/null"\n'
        f'embeddings {{\n  tensor_name: "{CITY}"\n  tensor_path: "{city}.tsv"\n'
        f'  metadata_path: "{city}.metadata.tsv"\n}}\n'
        f'embeddings {{\n  tensor_name: "{USER}"\n  tensor_path: "{user}.tsv"\n}}\n'
        'embeddings {\n  tensor_name: "users"\n  tensor_path: "projector/users.tsv"\n}\n'
    )
    vectors = np.loadtxt(checkpoint / f"{city}.tsv", delimiter="\t")
    np.testing.assert_array_equal(vectors, VARIABLES[CITY])
    # A tab would start a second column, and TensorBoard skips empty lines.
    words = (checkpoint / f"{city}.metadata.tsv").read_text().split("\n")
    assert words == ["rome", "new york", "(empty)", "(out of vocabulary 0)"]
    shared = np.loadtxt(checkpoint / "projector/users.tsv", delimiter="\t")
    np.testing.assert_allclose(shared, VARIABLES["users"], rtol=1e-5)
    # Without a config, TensorBoard would find the checkpoint in the folder above.
    config = (checkpoint / "eval" / "projector_config.pbtxt").read_text()
    assert config == 'model_checkpoint_path: "/dev/null"\n'


def test_the_first_rows_of_a_large_table(checkpoint, monkeypatch, caplog):
    spec = feature_specs.parse(DOCUMENT)
    ending.write_projector(str(checkpoint), spec, most_rows=2)
    for file in ("", ".metadata"):
        path = f"projector/dnn_input_layer_city_embedding_embedding_weights{file}.tsv"
        assert len((checkpoint / path).read_text().splitlines()) == 2
    monkeypatch.setattr(ending, "_MOST_NUMBERS", 14)
    with caplog.at_level(logging.INFO, logger="estimator_kit"):
        assert ending.write_projector(str(checkpoint), spec) == [CITY, "users"]
    assert f"TensorBoard does not show {USER}: the table has the shape [5, 3]" in caplog.text


def test_nothing_without_a_checkpoint(tmp_path):
    assert ending.write_projector(str(tmp_path), feature_specs.parse(DOCUMENT)) == []
    assert list(tmp_path.iterdir()) == []
