"""The signature top_k of an export: a bare process, both protocols, and --mode=predict --top_k."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.client import GrpcClient, RestClient, RowError, ServingError
from estimator_kit.config.areas.serving import ServedModel
from estimator_kit.exporters import (
    c_session,
    comparison,
    example_requests,
    sample_rows,
    saved_model,
)
from estimator_kit.models import find_model
from estimator_kit.serving import config_files
from input_pipelines.record_files import writing
from tests import rounding
from tests.conformance import batching
from tests.estimator_kit.serving.small_models import serving
from tests.estimator_kit.small_training import batch_of

ITEMS = list("abcdef")
SPEC = {
    "features": {"item": {"dtype": "string", "shape": "variable"}},
    "columns": {
        "item": {"vocabulary": "item", "list": ITEMS, "sequence": True},
        "item_emb": {"embedding": "item", "dimension": 4},
    },
    "groups": {"steps": ["item_emb"]},
    "labels": {"next": {"dtype": "string", "shape": "variable", "missing": "mask"}},
    "objectives": {"next": {"head": "next_item", "items": "item", "top_k": 3}},
}
# An item outside the catalogue, and a history without steps.
ROWS = [["a", "b"], ["c", "x", "c", "d"], [], ["e"]]

_ASK = """
import json, runpy, sys
c = runpy.run_path(sys.argv[1])
job = json.load(sys.stdin)
session = c["CSession"](c["load_library"](c["library_path"](sys.argv[2])), job["export"])
for request in job["requests"]:
    inputs = {name: c["decoded"](value) for name, value in request.items()}
    found = session.ask("top_k/next", inputs)
    print(json.dumps({name: c["encoded"](value) for name, value in found.items()}))
session.close()
assert not [m for m in sys.modules if m.startswith(("tensorflow", "estimator_kit"))]
"""


def in_a_bare_process(export, requests):
    job = {
        "export": export,
        "requests": [
            {name: c_session.encoded(np.asarray(value)) for name, value in request.items()}
            for request in requests
        ],
    }
    done = subprocess.run(
        [sys.executable, "-c", _ASK, c_session.__file__, os.path.dirname(tf.__file__)],
        input=json.dumps(job), text=True, capture_output=True, check=True,
        env={"PATH": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )  # fmt: skip
    return [
        {name: c_session.decoded(value) for name, value in json.loads(line).items()}
        for line in done.stdout.splitlines()
    ]


def by_hand(scores, k, *, exclude_seen):
    """The words and scores of the best items, by sorting."""
    words, found = [], []
    for row, seen in zip(scores, ROWS):
        order = np.argsort(-row, kind="stable")
        left = [i for i in order if not (exclude_seen and ITEMS[i] in seen)][:k]
        empty = min(k, len(ITEMS)) - len(left)
        words.append([ITEMS[i].encode() for i in left] + [b""] * empty)
        found.append([*row[left], *[np.finfo("f").min] * empty])
    return words, found


def same(answer, expected):
    assert answer["items"].tolist() == expected[0]
    np.testing.assert_allclose(answer["scores"], expected[1], **rounding.CLOSE)


@pytest.mark.ci
def test_the_best_items_are_the_same_everywhere(tmp_path):
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    spec = ek.load_spec(str(tmp_path / "spec.json"))
    rows = [{"item": row, "next": [*row[1:], "f"][: len(row)]} for row in ROWS]
    model = find_model("sasrec")(spec, {"learning_rate": 0.1})
    config = tf.estimator.RunConfig(model_dir=str(tmp_path / "model"), tf_random_seed=1,
                                    save_summary_steps=None)  # fmt: skip
    trained = tf.estimator.Estimator(model, config=config)
    trained.train(batch_of(spec, rows), steps=2)
    data = str(tmp_path / "rows.tfrecord")
    writing.write_examples(data, rows)
    sample = sample_rows.sample_rows(spec, [data])
    export = saved_model.export_saved_model(
        trained, spec, str(tmp_path / "export"), rows=sample, origin=None
    )
    predicted = trained.predict(batch_of(spec, rows, labels=False))
    scores = np.array([row["next/scores"] for row in predicted])
    # Without steps, all scores are equal, so the items are in the order of the vocabulary.
    assert (scores[2] == 0).all()

    examples = np.array([writing.example(row).SerializeToString() for row in rows], object)
    # The loss of an export, as `--mode=transform` compares it, is the loss of an evaluation.
    answers = {"next/scores": scores}
    (loss,) = comparison.metrics_of(spec, examples.tolist(), answers)["next"].values()
    known = [i for i, row in enumerate(rows) if row["next"] and row["next"][-1] in ITEMS]
    own = [scores[i][ITEMS.index(rows[i]["next"][-1])] for i in known]
    logsumexp = np.log(np.exp(scores[known]).sum(axis=1))
    assert loss == pytest.approx(np.mean(logsumexp - own), rel=1e-5)

    choices = [(4, False), (4, True), (99, True)]
    answers = in_a_bare_process(
        export,
        [{"examples": examples, "k": np.full(4, k, np.int32), "exclude_seen": np.full(4, s)}
         for k, s in choices],
    )  # fmt: skip
    for answer, (k, exclude_seen) in zip(answers, choices):
        same(answer, by_hand(scores, k, exclude_seen=exclude_seen))

    with (
        serving(tmp_path / "export") as (address, url, _),
        GrpcClient(address, "ads") as first,
        RestClient(url, "ads") as second,
    ):
        for client in (first, second):
            for k, asked in ((0, 3), (5, 5), ([5] * 4, 5)):
                inputs = {"examples": examples, "k": k, "exclude_seen": True}
                same(client.predict_tensors(inputs, signature="top_k/next"),
                     by_hand(scores, asked, exclude_seen=True))  # fmt: skip
            with pytest.raises(ServingError, match="expected the names examples, exclude_seen, k"):
                client.predict(list(examples), signature="top_k/next")
            inputs = {"examples": examples, "k": [5], "exclude_seen": True}
            with pytest.raises(RowError, match="inputs differ in their number of rows"):
                client.predict_tensors(inputs, signature="top_k/next")
    reason = config_files.reason_against_splitting([ServedModel("ads", str(tmp_path / "export"))])
    assert reason == "ads: the width of 'items' of top_k/next differs between batches"
    signatures = batching.signatures_of(export)
    requests = batching.requests_of(pathlib.Path(export) / "assets.extra" / example_requests.NAME)
    assert set(requests) == set(signatures) >= {"top_k/next", "item_vectors/next"}
    assert requests["top_k/next"]["k"].tolist() == [3] * 4

    output = tmp_path / "best.jsonl"
    fields = {"mode": "predict", "spec": str(tmp_path / "spec.json"), "export_dir": export,
              "predict_files": (data,), "top_k": 2}  # fmt: skip
    ek.run(ek.ExperimentConfig(**fields, predict_output=str(output)))
    ek.run(ek.ExperimentConfig(**fields, predict_dir=str(tmp_path / "many")))
    words, expected = by_hand(scores, 2, exclude_seen=False)
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["items"] for row in found] == [[w.decode() for w in row] for row in words]
    np.testing.assert_allclose([row["scores"] for row in found], expected, **rounding.CLOSE)
    (many,) = pathlib.Path(tmp_path / "many").glob("rows*")
    stored = [tf.train.Example.FromString(r) for r in tf.compat.v1.io.tf_record_iterator(str(many))]
    assert [list(row.features.feature["items"].bytes_list.value) for row in stored] == words


def test_an_export_of_an_earlier_release_has_one_k_for_all_rows(tmp_path):
    """Its inputs `k` and `exclude_seen` are scalars with defaults."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        examples = v1.placeholder(tf.string, [None])
        k = v1.placeholder_with_default(tf.constant(3, tf.int32), [])
        scores = tf.tile([[0.5, 0.25, 0.125]], [tf.size(examples), 1])[:, :k]
        items = tf.tile([["a", "b", "c"]], [tf.size(examples), 1])[:, :k]
        made = v1.saved_model.predict_signature_def(
            {"examples": examples, "k": k}, {"items": items, "scores": scores}
        )
        made.defaults["k"].CopyFrom(tf.make_tensor_proto(3, tf.int32))
        builder = v1.saved_model.Builder(str(tmp_path / "1"))
        builder.add_meta_graph_and_variables(session, ["serve"], {"top_k/next": made})
        builder.save()
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    writing.write_examples(str(tmp_path / "rows.tfrecord"), [{"item": ["a"]}] * 2)
    output = tmp_path / "best.jsonl"
    ek.run(ek.ExperimentConfig(
        mode="predict", spec=str(tmp_path / "spec.json"), export_dir=str(tmp_path),
        predict_files=(str(tmp_path / "rows.tfrecord"),), top_k=2, predict_output=str(output),
    ))  # fmt: skip
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["items"] for row in found] == [["a", "b"]] * 2
    assert [row["scores"] for row in found] == [[0.5, 0.25]] * 2


def test_the_flag_needs_an_export():
    with pytest.raises(ek.ConfigError, match=r"--export_dir is missing\. --top_k needs an export"):
        ek.ExperimentConfig(
            mode="predict", spec="s", model_dir="m", predict_files=("f",), top_k=3,
            predict_output="o.jsonl",
        )  # fmt: skip
