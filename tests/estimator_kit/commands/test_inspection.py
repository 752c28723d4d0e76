"""`--mode=inspect` of a model: its parts counted by hand, its memory, and the advice."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.commands import inspect
from estimator_kit.commands import inspected_model as description
from estimator_kit.commands.inspected_model import advice
from estimator_kit.commands.model_parts import parts_of
from estimator_kit.config.modes import command_of
from estimator_kit.embeddings import table_memory
from estimator_kit.models import find_model
from feature_specs.statistics import Statistics
from tests.conftest import small_run

LAYER = "dnn/input_from_feature_columns/input_layer"


def spec_of(columns, tables=None, **sizes):
    """A spec with two numbers, embeddings, and the hash buckets that these read."""
    sizes = {"user": 1000, "seller": 50, "buyer": 50, **sizes}
    read = {column["embedding"] for column in columns.values()}
    return feature_specs.parse(
        {
            "features": {
                **{name: {"dtype": "string", "default": ""} for name in sorted(read)},
                "area": {"dtype": "float32"}, "price": {"dtype": "float32"},
            },
            **({"embedding_tables": tables} if tables else {}),
            "columns": {
                **{name: {"hash_bucket": name, "size": sizes[name]} for name in sorted(read)},
                "area": {"numeric": "area"}, "price": {"numeric": "price"}, **columns,
            },
            "groups": {"deep": ["area", "price", *columns]},
            "labels": {"y": {"dtype": "int64"}},
            "objectives": {"y": {"head": "binary"}},
        }
    )  # fmt: skip


def statistics_of(**features) -> Statistics:
    """Statistics of string features: name=(distinct words, the most frequent words)."""
    return Statistics.model_validate(
        {
            "rows": 1000, "files": 1,
            "features": {
                name: {
                    "dtype": "string", "missing": 0, "values": 1000,
                    "lengths": {"min": 1, "max": 1, "mean": 1.0, "counts": {"1": 1000}},
                    "cardinality": {"value": count, "exact": True},
                    "words": {
                        "top": tuple((w, 1) for w in words), "exact": True, "largest_error": 0,
                        "integers": False, "empty": 0, "not_words": 0,
                    },
                }
                for name, (count, words) in features.items()
            },
        }
    )  # fmt: skip


def said(spec, statistics=None, model="dnn", **params):
    made = find_model(model)(spec, {"hidden_units": [4], **params})
    return advice(spec, made.groups(), parts_of(made), statistics)


def test_the_parts_of_a_dnn_are_those_counted_by_hand():
    spec = spec_of({"user_vec": {"embedding": "user", "dimension": 6}})
    model = find_model("dnn")(spec, {"hidden_units": [5, 3], "optimizer": "adam"})
    found = parts_of(model)
    # The input has 2 numbers and 6 of the embedding. Adam adds two slots to each number.
    expected = {
        f"{LAYER}/user_embedding": (1000 * 6, 0),
        "dnn/hiddenlayer_0": (8 * 5 + 5, 2 * 8 * 5),
        "dnn/hiddenlayer_1": (5 * 3 + 3, 2 * 5 * 3),
        "dnn/logits": (3 * 1 + 1, 2 * 3 * 1),
    }
    parts = {part.name: part for part in found.parts}
    assert {name: (p.parameters, p.operations) for name, p in parts.items() if p.parameters} == (
        expected
    )
    for name, (parameters, _) in expected.items():
        assert (parts[name].bytes, parts[name].slot_bytes) == (4 * parameters, 8 * parameters)
    # What belongs to no weight: the global step (8 bytes), and two powers of Adam.
    (other,) = (part for part in found.parts if not part.parameters)
    assert (other.name, other.bytes + other.slot_bytes) == ("(other)", 8 + 4 + 4)
    assert not found.varies and not found.growing and not found.float64
    (table,) = found.tables
    assert (table.rows, table.width) == (1000, 6)


def test_the_lines_about_a_model(monkeypatch):
    monkeypatch.setattr(table_memory, "machine_memory", lambda: 2**30)
    spec = spec_of({"user_vec": {"embedding": "user", "dimension": 6}})
    model = find_model("dnn")(spec, {"hidden_units": [5], "optimizer": "sgd"})
    lines = description.describe(model, "dnn", None)
    assert [line.split() for line in lines[:3]] == [
        ["model", "dnn,", "by", "part"],
        ["parameters", "bytes", "with", "slots", "FLOPs", "a", "row", "part"],
        ["6,000", "24,000", "24,000", "0", f"{LAYER}/user_embedding"],
    ]
    together = next(line.split() for line in lines if line.endswith("together"))
    # 6000 + (8 * 5 + 5) + (5 + 1) weights, 8 bytes of the global step, 2 * (40 + 5) operations.
    assert together == ["6,051", "24,204", "24,212", "90", "together"]
    assert (
        "training keeps 0.0 MiB of 1,024.0 MiB on this machine: 0.0 MiB of weights, and 0.0 MiB "
        "that the optimizer adds. Gradients and batches come on top."
    ) in lines
    assert lines[-2:] == [
        "advice",
        "  The folder of the spec has no statistics.json, so the sizes of hash buckets were not "
        "compared with the words. Write it with --mode=analyze.",
    ]
    monkeypatch.setattr(table_memory, "machine_memory", lambda: 20_000)
    assert any(
        line.startswith("  This is more than the machine has.")
        for line in description.describe(model, "dnn", None)
    )


@pytest.mark.parametrize(
    ("params", "remedy"),
    [
        ({"optimizer": "adam"}, "in Adam, Adam_1. Use optimizer=lazy_adam or adagrad, which write"),
        ({"optimizer": "sgd", "moving_average": 0.9}, "Leave out the parameter moving_average."),
        ({"optimizer": "lazy_adam"}, None),
        ({"optimizer": "adagrad"}, None),
        ({"optimizer": "ftrl"}, None),
        ({"optimizer": "momentum"}, None),
    ],
)
def test_an_optimizer_that_writes_whole_tables(params, remedy):
    spec = spec_of({"vec": {"embedding": "user", "dimension": 10}}, user=100_000)
    found = said(spec, **params)
    if remedy is None:
        assert found == []
        return
    (sentence,) = found
    table = f"{LAYER}/user_embedding/embedding_weights"
    assert sentence.startswith(f"{table}: each training step writes all 100,000 rows, in ")
    assert remedy in sentence


def test_a_small_table_is_no_reason():
    spec = spec_of({"vec": {"embedding": "user", "dimension": 10}}, user=99_999)
    assert said(spec, optimizer="adam") == []


def test_many_more_ids_than_words():
    spec = spec_of({"vec": {"embedding": "user", "dimension": 8}}, user=60_000)
    assert said(spec, statistics_of(user=(1200, []))) == []  # 50 ids for each word.
    (sentence,) = said(spec, statistics_of(user=(1000, [])))
    # (60,000 - 20,000) rows of 8 numbers of 4 bytes are 1.2 MiB.
    assert sentence == (
        "columns.user: 60,000 ids for 1,000 words of 'user' in statistics.json. With size: 20000, "
        "about 1 word in 20 shares its id, and the tables are 2 MiB smaller."
    )


@pytest.mark.ci
def test_tables_that_could_be_shared():
    columns = {
        "seller_vec": {"embedding": "seller", "dimension": 8},
        "buyer_vec": {"embedding": "buyer", "dimension": 8},
    }
    words = [f"w{i}" for i in range(10)]
    spec = spec_of(columns)
    (sentence,) = said(spec, statistics_of(seller=(10, words), buyer=(10, [*words[:9], "x"])))
    assert sentence == (
        "columns.seller_vec and columns.buyer_vec: seller and buyer have the same size, and 90% of "
        "their frequent words in common. If a word means the same in both, name a table in "
        "embedding_tables, and give both embeddings "
        "`table: <name>`."
    )
    assert said(spec, statistics_of(seller=(10, words), buyer=(10, [*words[:8], "x", "y"]))) == []
    shared = {
        name: {"embedding": column["embedding"], "table": "people"}
        for name, column in columns.items()
    }
    both = statistics_of(seller=(10, words), buyer=(10, words))
    assert said(spec_of(shared, tables={"people": {"dimension": 8}}), both) == []
    columns["buyer_vec"]["dimension"] = 4
    assert said(spec_of(columns), both) == []


def test_equal_vocabularies_could_be_shared():
    columns = {
        "seller_vec": {"embedding": "seller", "dimension": 2},
        "buyer_vec": {"embedding": "buyer", "dimension": 2},
    }
    document = spec_of(columns).to_dict()
    for name in ("seller", "buyer"):
        document["columns"][name] = {"vocabulary": name, "list": ["a", "b"]}
    (sentence,) = said(feature_specs.parse(document))
    assert (
        "columns.seller_vec and columns.buyer_vec: seller and buyer have the same voc" in sentence
    )
    document["columns"]["buyer"]["list"] = ["b", "a"]
    assert said(feature_specs.parse(document)) == []


class InDouble(ek.ModelFn):
    """A model whose author forgot a cast."""

    def groups(self):
        return ("deep",)

    def logits(self, features, mode):
        inputs = tf.cast(self.dense_input(features, "deep"), tf.float64)
        kernel = tf.compat.v1.get_variable("kernel", [inputs.shape[1], 1])
        return tf.cast(inputs @ tf.cast(kernel, tf.float64), tf.float32)


def test_float64_is_found():
    spec = spec_of({"vec": {"embedding": "user", "dimension": 8}})
    (sentence,) = advice(spec, ["deep"], parts_of(InDouble(spec)), None)
    assert sentence == (
        "matmul: float64 takes twice the memory and time of float32, which is enough for "
        "training. Cast the inputs with tf.cast(x, tf.float32)."
    )


@pytest.mark.ci
def test_the_mode_shows_a_spec_with_its_statistics(ads, tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text((ads / "spec.yaml").read_text())
    fields = {"mode": "inspect", "spec": str(spec), "model_params": {"hidden_units": [4]}}
    text = inspect.inspect(
        command_of(ek.ExperimentConfig(**fields, graph_dir=str(tmp_path / "graph")))
    )
    lines = text.splitlines()
    assert lines[:2] == [f"spec {spec}", "model wide_deep, by part"]
    assert "has no statistics.json" in text
    assert lines[-1].startswith("graph for TensorBoard: ")
    (tmp_path / "statistics.json").write_text(statistics_of(user=(3, [])).as_text())
    text = inspect.inspect(command_of(ek.ExperimentConfig(**fields)))
    assert "has no statistics.json" not in text
    (tmp_path / "statistics.json").write_text("{}")
    with pytest.raises(ek.ConfigError, match="rows is missing"):
        inspect.inspect(command_of(ek.ExperimentConfig(**fields)))


@pytest.mark.ci
def test_the_mode_shows_the_parts_of_a_trained_model(ads, tmp_path):
    folder = tmp_path / "run"
    ek.run(
        small_run(
            ads, folder, mode="train", max_steps=1, model="dnn",
            model_params={"hidden_units": [5]},
        )()
    )  # fmt: skip
    config = ek.ExperimentConfig(mode="inspect", model_dir=str(folder))
    assert "\nmodel dnn, by part\n" in inspect.inspect(command_of(config))
    flags = folder / "flags.txt"
    flags.write_text(flags.read_text().replace("--model=dnn", "--model=gone.module:Model"))
    assert "\nthe parts of the model are unknown: " in inspect.inspect(command_of(config))
    flags.unlink()
    assert inspect.inspect(command_of(config)).endswith(
        "\nno flags and spec of a training, so the parts of the model are unknown"
    )
    assert json.loads((folder / "result.json").read_text())["global_step"] == 1
