"""Ids of vocabulary columns by hand: known words, and each way to treat unknown words."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

import feature_specs
from input_pipelines.transform.batch import make_table

WORDS = {"string": (["rome", "oslo"], ["oslo", "lima", "rome"]), "int64": ([7, 3], [3, 5, 7])}


def ids(tmp_path, dtype, kind, options):
    """The ids of a known word, of an unknown word, and of the first word."""
    words, asked = WORDS[dtype]
    (tmp_path / "words.txt").write_text("".join(f"{word}\n" for word in words))
    source = {"list": words} if kind == "list" else {"file": "words.txt"}
    document = {
        "features": {"word": {"dtype": dtype}},
        "columns": {
            "word": {"vocabulary": "word", **source, **options}, "hot": {"indicator": "word"},
        },
        "groups": {"deep": ["hot"]},
        "labels": {"y": {"dtype": "int64"}},
        "objectives": {"y": {"head": "binary"}},
    }  # fmt: skip
    (tmp_path / "spec.json").write_text(json.dumps(document))
    spec = feature_specs.load(str(tmp_path / "spec.json"))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        found = make_table(spec, spec.columns["word"]).lookup(tf.constant(asked, dtype))
        session.run(tf.compat.v1.tables_initializer())
        return session.run(found).tolist()


@pytest.mark.parametrize("kind", ["list", "file"])
@pytest.mark.parametrize("dtype", ["string", "int64"])
@pytest.mark.parametrize(
    ("options", "outside"), [({}, -1), ({"default_id": 0}, 0), ({"default_id": 1}, 1),
                             ({"oov_buckets": 1}, 2)],
)  # fmt: skip
def test_ids(tmp_path, kind, dtype, options, outside):
    assert ids(tmp_path, dtype, kind, options) == [1, outside, 0]
