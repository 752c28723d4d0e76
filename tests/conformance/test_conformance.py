"""Every built-in model, and every head: trains, evaluates, and answers the same once exported.

The exports are loaded by TensorFlow's C++ loader, in a process without any of its Python code.
"""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.client import GrpcClient, RestClient
from estimator_kit.commands import transform
from estimator_kit.config.modes import command_of
from estimator_kit.exporters import c_session, example_requests, sample_rows, saved_model
from estimator_kit.model.names import read_metrics
from estimator_kit.models import MODELS
from feature_specs.heads import HEADS
from feature_specs.kinds import COLUMN_KINDS
from input_pipelines.record_files import writing
from input_pipelines.transform import serving_inputs
from input_pipelines.transform.record_parsing import RecordParser
from tests.conformance import batching, table
from tests.estimator_kit.serving.small_models import serving
from tests.estimator_kit.small_training import batch_of

_READER = """
import json, runpy, sys
c = runpy.run_path(sys.argv[1])
lib = c["load_library"](c["library_path"](sys.argv[2]))
for line in sys.stdin:
    export, requests = json.loads(line)
    session = c["CSession"](lib, export)
    answers = {
        name: session.ask(name, {key: c["decoded"](value) for key, value in inputs.items()})
        for name, inputs in requests.items()
    }
    session.close()
    assert not [m for m in sys.modules if m.startswith(("tensorflow", "estimator_kit"))]
    encoded = {n: {k: c["encoded"](v) for k, v in a.items()} for n, a in answers.items()}
    print(json.dumps(encoded), flush=True)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A function (export, {signature: inputs}) -> predictions, answered by one bare process."""
    log = tmp_path_factory.mktemp("reader") / "stderr"
    with log.open("w") as stderr, subprocess.Popen(
        [sys.executable, "-c", _READER, c_session.__file__, os.path.dirname(tf.__file__)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=stderr, text=True, cwd=log.parent,
        env={"PATH": "", "HOME": os.environ.get("HOME", ""), "TF_CPP_MIN_LOG_LEVEL": "3"},
    ) as process:  # fmt: skip

        def answer(export, requests):
            job = {
                name: {key: c_session.encoded(value) for key, value in inputs.items()}
                for name, inputs in requests.items()
            }
            process.stdin.write(json.dumps([export, job]) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, log.read_text()
            return {
                name: {key: c_session.decoded(value) for key, value in found.items()}
                for name, found in json.loads(line).items()
            }

        yield answer
        process.stdin.close()


def test_every_model_and_every_head_has_an_entry():
    assert set(table.MODEL_CASES) == set(MODELS)
    assert set(table.HEAD_CASES) == set(HEADS)


def some_heads(name):
    """Two heads, other ones for each model; every head comes with several models."""
    heads, place = table.ROW_HEADS, list(MODELS).index(name)
    return [heads[place % len(heads)], heads[(place + len(heads) // 2) % len(heads)]]


# The model with the most in common with other models. `nightly` tests have all models.
IN_EVERY_RUN = ("wide_deep",)


def test_every_head_is_among_the_some():
    free = [name for name in MODELS if table.MODEL_CASES[name].objectives is None]
    counts = collections.Counter(head for name in free for head in some_heads(name))
    assert set(counts) == set(table.ROW_HEADS) and min(counts.values()) >= 2


# Continuous integration runs a quarter of the models, and the one that is least like others.
IN_CI = [*list(MODELS)[::4], "two_tower"]


# All heads in one model are a large graph.
@pytest.mark.parametrize(
    ("name", "heads"),
    [
        *((name, "some") for name in IN_EVERY_RUN),
        *(
            pytest.param(
                name, "some", marks=pytest.mark.ci if name in IN_CI else pytest.mark.nightly
            )
            for name in MODELS
            if name not in IN_EVERY_RUN
        ),
        *(
            pytest.param(
                name, "all", marks=pytest.mark.ci if name == "dnn" else pytest.mark.nightly
            )
            for name in MODELS
            if table.MODEL_CASES[name].objectives is None
        ),
    ],
)
def test_a_model_trains_exports_and_answers_the_same_elsewhere(name, heads, served, tmp_path):
    case = table.MODEL_CASES[name]
    chosen = some_heads(name) if heads == "some" else table.ROW_HEADS
    objectives = case.objectives or {head: head for head in chosen}
    whole = feature_specs.parse(table.document(objectives, tuple(table.DOCUMENT["groups"])))
    groups = MODELS[name](whole, case.params).groups()
    spec = feature_specs.parse(table.document(objectives, groups))
    rows = table.make_rows(48, objectives)
    model = MODELS[name](spec, case.params)
    trained = tf.estimator.Estimator(
        model,
        config=tf.estimator.RunConfig(
            model_dir=str(tmp_path / "model"), tf_random_seed=1,
            save_summary_steps=None, log_step_count_steps=None,
        ),
    )  # fmt: skip
    trained.train(batch_of(spec, rows), steps=2)

    metrics = read_metrics(trained.evaluate(batch_of(spec, rows), steps=1))
    assert metrics["global_step"] == 2 and metrics["rows"] == 48
    assert all(np.isfinite(metrics[f"loss/{name}"]) for name in objectives)
    # The sums of squares of Adagrad and FTRL start at 0.1, the sums of Adam at 0.
    starts = {"/Adagrad": 0.1, "/Ftrl": 0.1, "/Adam_1": 0.0}
    slots = [n for n in trained.get_variable_names() if n.endswith(tuple(starts))]
    # Only differences of scores make an order, in which what moves all rows alike plays no part.
    alike = tuple(f"/{name}{slot}" for name in ("bias", "beta") for slot in starts)
    slots = [s for s in slots if not (s.startswith("tower_ranking/") and s.endswith(alike))]
    for slot in slots:  # A variable that never had a gradient keeps the slot it started with.
        start = starts["/" + slot.rpartition("/")[2]]
        assert (trained.get_variable_value(slot) != start).any(), slot
    assert slots

    unlabelled = [{k: v for k, v in row.items() if k not in objectives} for row in rows[:9]]
    records = [writing.example(row).SerializeToString() for row in unlabelled]
    export = saved_model.export_saved_model(trained, spec, str(tmp_path / "export"))
    raw = raw_request(spec, records)
    signatures = batching.signatures_of(export)
    example_requests.write(
        str(tmp_path / "warm_up"), signatures, records, raw, spec=spec, model="ads"
    )
    requests = batching.requests_of(tmp_path / "warm_up")
    assert set(requests) == set(signatures)
    found = served(
        export,
        {**requests, "predict_examples": {"examples": np.array(records, object)},
         "predict_raw": raw},
    )  # fmt: skip
    for name, inputs in requests.items():
        assert batching.rows(inputs) == batching.rows(found[name]), name
    predicted = list(trained.predict(batch_of(spec, unlabelled, labels=False)))
    for name in ("predict_examples", "predict_raw"):
        check_same(found[name], predicted, name)
    assert len(predicted[0]) >= len(objectives)


def raw_request(spec, records):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        flat = session.run(RecordParser(spec).flat(tf.constant(records), with_labels=False))
    assert serving_inputs.sendable(spec, flat).all()
    return serving_inputs.filled(spec, flat)


def check_same(found, predicted, what):
    """Answers of a signature and rows of `estimator.predict`."""
    assert set(found) == set(predicted[0])
    for key in found:
        expected = np.array([row[key] for row in predicted])
        if expected.dtype.kind in "OS":
            assert found[key].tolist() == expected.tolist(), (what, key)
            continue
        np.testing.assert_allclose(found[key], expected, atol=1e-6, rtol=1e-6, err_msg=key)
        if key.endswith("/logits"):
            assert np.abs(expected).max() > 0


class EveryKind(ek.ModelFn):
    """Reads all kinds of columns, those too that built-in models leave to a team's own.

    It answers with every feature as the records have it.
    """

    def logits(self, features, mode):
        for name in self.spec.raw:
            value = self.raw(name)
            is_list = isinstance(value, tf.RaggedTensor)
            # In JSON, outputs with this end of the name need not be text.
            end = "_bytes" if self.spec.features[name].decode else ""
            self.add_output(f"raw_{name}{end}", value.to_tensor() if is_list else value)
        lists = self.ragged_input(features, "lists")
        steps, lengths = self.sequence_input(features, "steps")
        parts = [
            self.dense_input(features, "deep"),
            tf.reduce_sum(steps, axis=1),
            tf.cast(lengths, tf.float32)[:, tf.newaxis],
            tf.reduce_sum(lists["stays"], axis=1)[:, tf.newaxis],
            tf.cast(tf.reduce_sum(lists["word_list"], axis=(1, 2)), tf.float32)[:, tf.newaxis],
        ]
        deep = ek.dense_layer(tf.concat(parts, axis=1), self.logits_dimension, "logits")
        return deep + self.linear_logits(features, "wide")


def every_kind(vocabulary):
    return {
        "features": {
            "price": {"dtype": "float32", "default": 0.0},
            "size": {"dtype": "float32", "shape": [2, 2]},
            "pixels": {"dtype": "string", "decode": {"raw": {"dtype": "uint8", "shape": [3]}},
                       "default": "zeros"},
            "hour": {"dtype": "int64", "default": -1},
            "user": {"dtype": "string", "default": ""},
            "class": {"dtype": "string", "default": ""},  # No parameter of Python has this name.
            "tags": {"dtype": "string", "shape": "variable"},
            "weights": {"dtype": "float32", "shape": "variable"},
            "numbers": {"dtype": "int64", "shape": "variable"},
            "stays": {"dtype": "float32", "shape": "variable"},
            "words": {"dtype": "string", "shape": "variable", "row_lengths": "word_counts"},
            "word_counts": {"dtype": "int64", "shape": "variable"},
            "income": {"dtype": "float32", "default": -1.0},
            "age": {"dtype": "int64", "default": -1},
            "seen_at": {"dtype": "string", "default": ""},
        },
        "columns": {
            "income": {"numeric": "income", "missing": 40.0, "normalizer": "log1p"},
            "income_missing": {"is_missing": "income"},
            "age_bucket": {"bucketized": "age", "boundaries": [20, 50], "missing": "own_bucket"},
            "day": {"time": "seen_at", "part": "weekday", "format": "%Y-%m-%d %H:%M"},
            "day_emb": {"embedding": "day", "dimension": 2},
            "price": {"numeric": "price", "normalizer": "log1p"},
            "size": {"numeric": "size"},
            "pixels": {"numeric": "pixels"},
            "price_range": {"bucketized": "price", "boundaries": [1.0, 5.0]},
            "hour": {"identity": "hour", "size": 24},
            "user": {"hash_bucket": "user", "size": 20},
            "grown": {"growing": "numbers", "rows": 2, "buckets": 3, "min_count": 1,
                      "admit_every": 1},
            "grown_emb": {"embedding": "grown", "dimension": 3},
            "city": {"vocabulary": "class", "file": vocabulary, "oov_buckets": 1},
            "tag": {"hash_bucket": "tags", "size": 10},
            "tag_weighted": {"weighted": "tag", "weight": "weights"},
            "number": {"vocabulary": "numbers", "list": [3, 5]},
            "city_x_tag": {"crossed": ["class", "tags"], "size": 30},
            "seen": {"hash_bucket": "tags", "size": 8, "sequence": True},
            "stay": {"sequence_numeric": "weights"},
            "word": {"hash_bucket": "words", "size": 7},
            "word_list": {"ragged": "word"},
            "stays": {"ragged": "stays"},
            "user_emb": {"embedding": "user", "dimension": 4},
            "tag_emb": {"embedding": "tag_weighted", "dimension": 3},
            "seen_emb": {"embedding": "seen", "dimension": 2},
            "city_hot": {"indicator": "city"},
            "number_hot": {"indicator": "number"},
            "hour_hot": {"indicator": "hour"},
        },
        "groups": {
            "wide": ["price_range", "hour", "user", "city", "tag_weighted", "city_x_tag",
                     "income_missing", "age_bucket", "day"],
            "deep": ["price", "size", "pixels", "user_emb", "grown_emb", "tag_emb", "city_hot",
                     "number_hot",
                     "hour_hot", "income", "income_missing", "day_emb"],
            "steps": ["seen_emb", "stay"],
            "lists": ["word_list", "stays"],
        },
        "labels": {"click": {"dtype": "int64"}},
        "objectives": {"click": {"head": "binary"}},
    }  # fmt: skip


@pytest.mark.ci
def test_every_kind_of_column_answers_the_same_elsewhere(served, tmp_path):
    (tmp_path / "cities.txt").write_text("rome\noslo\n")
    document = every_kind("cities.txt")
    document["raw"] = list(document["features"])
    (tmp_path / "spec.json").write_text(json.dumps(document))
    spec = ek.load_spec(str(tmp_path / "spec.json"))
    kinds = {column.kind for column in spec.columns.values()}
    assert kinds == set(COLUMN_KINDS), "a kind is missing here"
    rng = np.random.default_rng(1)
    rows = []
    for i in range(24):
        tags = [str(tag) for tag in rng.choice(["a", "b", "c"], size=i % 4)]
        rows.append(
            {
                "price": float(rng.uniform(0, 9)), "size": rng.normal(size=4).astype(np.float32),
                "pixels": bytes([i, 7, 255]) if i % 5 else None,
                "hour": i if i % 7 else None, "user": ["ann", None][i % 2],
                "class": ["rome", "oslo", "lima", None][i % 4], "tags": tags,
                "weights": [float(rng.uniform(0.1, 1)) for _ in tags],
                "numbers": [int(n) for n in rng.choice([3, 5, 9], size=i % 3)],
                "stays": [float(rng.uniform()) for _ in range(i % 3)],
                "words": ["x", "y", "z"][: i % 4],
                "word_counts": [[], [0, 1], [2, 0], [1, 2]][i % 4],
                "income": [30.0, None, 70.5][i % 3], "age": [None, 19, 20, 60, 35][i % 5],
                "seen_at": ["2017-11-07 9:30", "2016-02-29 23:59", "soon", None][i % 4],
                "click": i % 2,
            }
        )  # fmt: skip
    model = EveryKind(spec, {"learning_rate": 0.5})
    config = tf.estimator.RunConfig(
        model_dir=str(tmp_path / "model"), save_summary_steps=None, tf_random_seed=7
    )
    trained = tf.estimator.Estimator(model, config=config)
    trained.train(batch_of(spec, rows), steps=2)
    path = str(tmp_path / "eval.tfrecord")
    writing.write_examples(path, rows)
    sample = sample_rows.sample_rows(spec, [path])
    export = saved_model.export_saved_model(trained, spec, str(tmp_path / "export"), rows=sample)
    assert os.listdir(os.path.join(export, "assets")) == ["cities.txt"]
    signatures = batching.signatures_of(export)
    requests = batching.requests_of(os.path.join(export, "assets.extra", example_requests.NAME))
    assert set(requests) == set(signatures)
    found = served(
        export,
        {"predict_examples": {"examples": np.array(sample.records, object)},
         "predict_raw": dict(sample.raw)},
    )  # fmt: skip
    predicted = list(trained.predict(batch_of(spec, rows, labels=False)))
    for name, answer in found.items():
        check_same(answer, predicted, name)
    assert found["predict_raw"]["raw_user"].tolist() == [b"ann", b""] * 12
    # As the README says to load it.
    call = tf.saved_model.load(export).signatures["predict_raw"]
    answer = call(**{name: tf.constant(value) for name, value in sample.raw.items()})
    check_same({key: value.numpy() for key, value in answer.items()}, predicted, "in Python")
    # The same by both protocols of servers.
    with (
        serving(tmp_path / "export") as (address, url, _),
        GrpcClient(address, "ads") as first,
        RestClient(url, "ads") as second,
    ):
        for client in (first, second):
            answer = client.predict(sample.records, signature="predict_examples")
            check_same(answer, predicted, f"{client} predict_examples")
            answer = client.predict_tensors(dict(sample.raw), signature="predict_raw")
            check_same(answer, predicted, f"{client} predict_raw")
    # Frozen and folded, it still finds its vocabulary.
    config = ek.ExperimentConfig(
        mode="transform", export_dir=export, transform="optimize", predict_files=(path,),
        transform_dir=str(tmp_path / "optimized"),
    )  # fmt: skip
    (tmp_path / "cities.txt").unlink()
    assert "largest difference on 24 rows" in transform.transform(command_of(config))
