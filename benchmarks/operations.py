"""Counts the operations of graphs: of an export, and for each column of each kind.

    python benchmarks/operations.py [--only export,columns]

`export` counts the graph of the model of speed.py: all of it, what each signature runs, and the
most frequent types. `columns` makes specs with columns of one kind, and prints how many operations
a column adds: the difference of two specs with 40 and 10 columns, divided by 30. It counts the
graph of the input, the model in training with its optimizer and saver, the model in evaluation, and
the export. Nothing is trained. benchmarks/README.md has results.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import estimator_kit.compat  # isort: skip
import click_logs
import tensorflow as tf
from training_speed import RATE, UNITS

import estimator_kit as ek
from estimator_kit.exporters.saved_model_graph import op_counts
from estimator_kit.exporters.writer import make_graph
from estimator_kit.models import find_model
from estimator_kit.tf_estimator import ModeKeys
from input_pipelines.transform.transforms import Transform

FEW, MANY, MOST_TYPES = 10, 40, 12

Documents = dict[str, Any]


def _dense(feature: dict[str, Any], *columns: Callable[[int], dict[str, Any]]) -> Documents:
    """A feature, and the columns that are made of it in order; `{}` means the one before it."""
    return {"feature": feature, "columns": columns, "group": "deep"}


def _wide(feature: dict[str, Any], *columns: Callable[[int], dict[str, Any]]) -> Documents:
    return {**_dense(feature, *columns), "group": "wide"}


STRING = {"dtype": "string", "default": ""}
INTEGER = {"dtype": "int64", "default": -1}
LIST = {"dtype": "string", "shape": "variable"}
NUMBER = {"dtype": "float32", "default": 0.0}


def embedding(i: int) -> dict[str, Any]:
    return {"embedding": f"c{i}_0", "dimension": 8}


def hashed(i: int) -> dict[str, Any]:
    return {"hash_bucket": f"f{i}", "size": 1000}


KINDS: dict[str, Documents] = {
    "embedding of a hashed string": _dense(STRING, hashed, embedding),
    "the same, each of another size": _dense(
        STRING, lambda i: {"hash_bucket": f"f{i}", "size": 1000 + i}, embedding
    ),
    "embedding of a hashed list": _dense(LIST, hashed, embedding),
    "embedding of a vocabulary": _dense(
        STRING, lambda i: {"vocabulary": f"f{i}", "list": ["a", "b"]}, embedding
    ),
    "embedding of an identity": _dense(
        INTEGER, lambda i: {"identity": f"f{i}", "size": 9 + i}, embedding
    ),
    "indicator of a hashed string": _dense(STRING, hashed, lambda i: {"indicator": f"c{i}_0"}),
    "bucketized number": _dense(
        NUMBER, lambda i: {"bucketized": f"f{i}", "boundaries": [0, 1, 2 + i]}
    ),
    "number with log1p": _dense(NUMBER, lambda i: {"numeric": f"f{i}", "normalizer": "log1p"}),
    "number with zscore": _dense(
        NUMBER,
        lambda i: {"numeric": f"f{i}", "normalizer": {"zscore": {"mean": i, "stddev": 2 + i}}},
    ),
    "linear weights of a hashed string": _wide(STRING, hashed),
    "linear weights of a hashed list": _wide(LIST, hashed),
    "linear weight of a number": _wide(NUMBER, lambda i: {"numeric": f"f{i}"}),
    "linear weights of a cross": _wide(
        STRING, hashed, lambda i: {"crossed": [f"c{i}_0", "f0"], "size": 1000}
    ),
}


def spec_of(kind: Documents, count: int) -> Any:
    made = {
        f"c{i}_{place}": column(i)
        for i in range(count)
        for place, column in enumerate(kind["columns"])
    }
    last = len(kind["columns"]) - 1
    return ek.parse_spec(
        {
            "features": {f"f{i}": kind["feature"] for i in range(count)},
            "columns": made,
            "groups": {kind["group"]: [f"c{i}_{last}" for i in range(count)]},
            "labels": {"click": {"dtype": "int64"}},
            "objectives": {"click": {"head": "binary"}},
        }
    )


def operations(graph: tf.Graph) -> int:
    return sum(op_counts(graph.as_graph_def()).values())


def model_of(spec: Any) -> Any:
    if "wide" in spec.groups:
        return find_model("linear")(spec, {})
    params = {"hidden_units": UNITS, "optimizer": "adagrad", "learning_rate": RATE}
    return find_model("dnn")(spec, params)


def export_graph(spec: Any) -> tuple[tf.Graph, dict[str, Any]]:
    with tf.Graph().as_default() as graph:
        made = make_graph(model_of(spec), spec, None, "predict_examples")
    return graph, dict(made.signatures)


def counted(spec: Any) -> dict[str, int]:
    """The operations of each graph of a spec."""
    result = {}
    with tf.Graph().as_default() as graph:
        Transform(spec).features_and_labels(tf.compat.v1.placeholder(tf.string, [None]))
        result["input"] = operations(graph)
    for name, mode in (("training", ModeKeys.TRAIN), ("evaluation", ModeKeys.EVAL)):
        with tf.Graph().as_default() as graph:
            tf.compat.v1.train.get_or_create_global_step()
            examples = tf.compat.v1.placeholder(tf.string, [None])
            features, labels = Transform(spec).features_and_labels(examples)
            before = operations(graph)
            model_of(spec)(features, labels, mode)
            tf.compat.v1.train.Saver(sharded=True)
            result[name] = operations(graph) - before
    result["export"] = operations(export_graph(spec)[0])
    return result


def needed(graph: tf.Graph, outputs: list[str]) -> int:
    """The operations that compute some tensors."""
    waiting = [graph.get_tensor_by_name(name).op for name in outputs]
    found = set()
    while waiting:
        op = waiting.pop()
        if op not in found:
            found.add(op)
            waiting += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return len(found)


def show(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


def show_export() -> None:
    graph, signatures = export_graph(click_logs.spec())
    types = op_counts(graph.as_graph_def())
    show({"name": "the export of speed.py's model", "operations": sum(types.values())})
    for name, signature in sorted(signatures.items()):
        outputs = [info.name for info in signature.outputs.values()]
        show({"signature": name, "operations": needed(graph, outputs)})
    show({"types": dict(types.most_common(MOST_TYPES))})
    parts = collections.Counter(
        op.name.partition("/")[0] for op in graph.get_operations()
    ).most_common(MOST_TYPES)
    show({"scopes": dict(parts)})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="export,columns")
    parts = parser.parse_args().only.split(",")
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    if "export" in parts:
        show_export()
    for name, kind in KINDS.items() if "columns" in parts else ():
        few, many = (counted(spec_of(kind, count)) for count in (FEW, MANY))
        a_column = {graph: round((many[graph] - few[graph]) / (MANY - FEW), 1) for graph in few}
        show({"columns": name, **a_column})


if __name__ == "__main__":
    main()
