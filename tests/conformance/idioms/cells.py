"""The cells of the table: a small model of each entry of the surface.

A cell is made from the signature of its entry: `ARGUMENTS` gives a value to each parameter that has
no default, by its name, and `SPECIAL` what an entry needs beyond. A new entry with a parameter that
is not here fails in `all_cells`, with its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tests.conformance.idioms import extra_cells, surface
from tests.conformance.idioms.cell import Cell as Cell
from tests.conformance.idioms.cell import hidden, to_logits

v1 = tf.compat.v1

# Values of parameters without a default, by name.
ARGUMENTS: dict[str, Any] = {
    "units": 3, "filters": 2, "kernel_size": 2, "pool_size": 2, "strides": 1, "rate": 0.25,
    "activation": "tanh", "num_heads": 2, "key_dim": 2, "n": 3, "dims": (2, 1), "stddev": 0.1,
    "target_shape": (2, 2), "height": 3, "width": 3, "factor": 0.1,
    "height_factor": 0.1, "width_factor": 0.1, "scale": 2.0, "num_bins": 5,
    "input_dim": 5, "output_dim": 3, "bin_boundaries": [0.0, 0.5], "axes": 1,
    "equation": "ab,bc->ac",
    "output_shape": 3, "learning_rate": 0.1, "k": 1, "num_classes": 2, "num_thresholds": 20,
    "thresholds": [0.3, 0.6], "threshold": 0.5, "specificity": 0.5, "sensitivity": 0.5,
    "recall": 0.5, "precision": 0.5, "target_class_ids": [0, 1], "dim": 1,
}  # fmt: skip

# Optimizers that wait for other processes.
FOR_CLUSTERS = {"SyncReplicasOptimizer"}


# --- tf.compat.v1.layers --------------------------------------------------------------------------


def _of_rank(x: tf.Tensor, rank: int) -> tf.Tensor:
    """float32 [rows, 4, ..., 4, 2] of a rank, from a hidden layer that is trained."""
    h = hidden(x)
    if rank == 2:
        return h
    result = tf.stack([h, tf.sin(3.0 * h)], 2)
    while result.shape.rank < rank:
        factor = tf.reshape(h, [-1, 4] + [1] * (result.shape.rank - 1))
        result = factor * result[:, None]
    return result


def _rank(name: str) -> int:
    """The rank of the input of a layer, which its name says."""
    found = re.search(r"([123])d", name.lower())
    return 2 + int(found[1]) if found else 2


def _layer_cells() -> list[Cell]:
    def made(name: str) -> Cell:
        function = getattr(v1.layers, name)
        values = {p: ARGUMENTS[p] for p in surface.required(function) if p != "inputs"}
        if surface.accepts(function, "seed"):
            values["seed"] = 7

        def logits(x: tf.Tensor, mode: str, keras: Any) -> tf.Tensor:
            more = {}
            if surface.accepts(function, "training"):
                more["training"] = mode == tf.estimator.ModeKeys.TRAIN
            return to_logits(function(_of_rank(x, _rank(name)), **values, **more))

        return Cell("layers", name, logits=logits)

    return [made(name) for name in surface.layers()]


# --- tf.compat.v1.losses --------------------------------------------------------------------------


def _loss_arguments(function: Any, y: tf.Tensor, logits: tf.Tensor) -> dict[str, tf.Tensor]:
    """Labels and logits in the form of the parameters of a loss."""
    both = tf.concat([-logits, logits], 1)
    wanted = tf.cast(y, tf.float32)[:, None]
    values: dict[str, Any] = {
        "labels": wanted, "predictions": tf.sigmoid(logits), "logits": logits,
        "multi_class_labels": wanted, "losses": tf.square(logits - wanted), "axis": 1,
        "loss": tf.reduce_mean(tf.square(logits - wanted)),
        "onehot_labels": tf.one_hot(y, 2),
    }  # fmt: skip
    if "softmax" in function.__name__:
        values.update(logits=both, labels=y)
    if function.__name__ == "mean_pairwise_squared_error":  # Of the pairs within a row.
        values.update(predictions=both, labels=tf.one_hot(y, 2))
    chosen = {name: values[name] for name in surface.required(function)}
    return {**chosen, "axis": 1} if function.__name__ == "cosine_distance" else chosen


def _loss_cells() -> list[Cell]:
    def auxiliary(name: str) -> Cell:
        function = getattr(v1.losses, name)

        def logits(x: tf.Tensor, mode: str, keras: Any) -> tf.Tensor:
            h = hidden(x)
            if mode != tf.estimator.ModeKeys.PREDICT:
                wanted = tf.cast(x[:, 0] > 0, tf.int64)
                function(**_loss_arguments(function, wanted, v1.layers.dense(h, 1, name="other")))
            else:
                v1.layers.dense(h, 1, name="other")
            return to_logits(h)

        return Cell("losses", f"{name} in logits", logits=logits)

    def of_rows(name: str) -> Cell:
        function = getattr(v1.losses, name)

        def losses(y: tf.Tensor, predictions: Any) -> tf.Tensor:
            values = _loss_arguments(function, y, predictions["y/logits"])
            found = function(**values, reduction=v1.losses.Reduction.NONE)
            return tf.reshape(found, [-1])

        return Cell("losses", f"{name} of rows", losses=losses)

    names = surface.losses()
    rowwise = [n for n in names if surface.accepts(getattr(v1.losses, n), "reduction")]
    return [auxiliary(name) for name in names] + [of_rows(name) for name in rowwise]


# --- tf.compat.v1.metrics -------------------------------------------------------------------------


def _metric_cells() -> list[Cell]:
    def made(name: str, weighted: bool) -> Cell:
        function = getattr(v1.metrics, name)

        def metric(y: tf.Tensor, predictions: Any) -> Any:
            p = predictions["y/logistic"]
            wanted: Any = y[:, None]
            got: Any = p
            if "at_k" in name or "at_top_k" in name:
                got = tf.concat([1 - p, p], 1)
            elif name in ("mean_cosine_distance",):
                wanted, got = tf.one_hot(y, 2), tf.concat([1 - p, p], 1)
            elif re.search(r"error|percentage|mean$|mean_tensor", name):
                wanted = tf.cast(wanted, tf.float32)
            elif not re.search(r"threshold|auc|specificity|sensitivity", name):
                got = tf.cast(p > 0.5, tf.int64)
            values = {
                **ARGUMENTS, "labels": wanted, "predictions": got,
                "values": tf.reduce_mean(p, 0) if name == "mean_tensor" else p,
                "normalizer": tf.ones_like(p),
                "predictions_idx": tf.cast(tf.concat([p > 0.5], 1), tf.int64),
            }  # fmt: skip
            chosen = {each: values[each] for each in surface.required(function)}
            if weighted:
                weights = tf.cast(1 + y, tf.float32)
                if name == "mean_tensor":
                    weights = tf.reduce_mean(weights)
                elif "at_k" not in name and "at_top_k" not in name:  # Others have one for a row.
                    weights = weights[:, None]
                chosen["weights"] = weights
            value, update = function(**chosen)
            # Numbers of a known count, as evaluations of the kit need.
            return value if value.shape.is_fully_defined() else tf.reduce_mean(value), update

        return Cell("metrics", f"{name}{' weighted' if weighted else ''}", metric=metric)

    weighted = [made(n, True) for n in surface.metrics()
                if surface.accepts(getattr(v1.metrics, n), "weights")]  # fmt: skip
    return [made(name, False) for name in surface.metrics()] + weighted


# --- tf.compat.v1.train.*Optimizer ----------------------------------------------------------------


def _optimizer_cells() -> list[Cell]:
    def made(name: str) -> Cell:
        kind = getattr(v1.train, name)

        def optimizer() -> Any:
            values = {**ARGUMENTS, "momentum": 0.9}
            if name == "AdagradDAOptimizer":
                values["global_step"] = v1.train.get_global_step()
            names = surface.required(kind.__init__)
            if surface.accepts(kind.__init__, "learning_rate"):
                names = [*names, "learning_rate"]
            return kind(**{each: values[each] for each in dict.fromkeys(names)})

        return Cell("optimizers", name, optimizer=optimizer)

    return [made(name) for name in surface.optimizers() if name not in FOR_CLUSTERS]


# --- Keras ----------------------------------------------------------------------------------------


def _keras_input(name: str, x: tf.Tensor) -> tuple[Any, dict[str, Any]]:
    """What a Keras layer reads, and more arguments of its call."""
    h = hidden(x)
    ids = tf.cast(tf.floor(2.5 * (x + 1)), tf.int64)  # 0 to 4
    if name in ("Embedding", "CategoryEncoding", "IntegerLookup"):
        return ids, {}
    if name in ("Hashing", "StringLookup"):
        return tf.strings.as_string(ids), {}
    if name == "TextVectorization":
        return tf.strings.as_string(ids)[:, :1], {}
    if name == "HashedCrossing":
        return (ids[:, :1], ids[:, 1:2]), {}
    if re.fullmatch("Add|Average|Concatenate|Dot|Maximum|Minimum|Multiply|Subtract", name):
        return [h, tf.sin(3.0 * h)], {}
    if name in ("Attention", "AdditiveAttention"):
        return [_of_rank(x, 3), _of_rank(x, 3)], {}
    if name == "MultiHeadAttention":
        value = _of_rank(x, 3)
        return value, {"value": value}
    if name == "DenseFeatures":
        return {"h": h}, {}
    if name.startswith("ConvLSTM"):
        return _of_rank(x, _rank(name) + 1), {}
    if name.startswith("Random") or name in ("CenterCrop", "Resizing", "GroupNormalization"):
        return _of_rank(x, 4), {}
    three = r"RNN|GRU|LSTM|Bidirectional|Permute|Masking|TimeDistributed"
    return _of_rank(x, 3 if re.search(three, name) else _rank(name)), {}


def _keras_layer(name: str) -> Any:
    """A layer, made from the signature of its class."""
    layers = tf.keras.layers
    kind = getattr(layers, name)
    special = {
        "Bidirectional": lambda: {"layer": layers.GRU(2)},
        "CategoryEncoding": lambda: {"num_tokens": 5},
        "DenseFeatures": lambda: {"feature_columns": [tf.feature_column.numeric_column("h", (4,))]},
        "GroupNormalization": lambda: {"groups": 2},
        "IntegerLookup": lambda: {"vocabulary": [0, 1, 2]},
        "Lambda": lambda: {"function": tf.sin},
        "Normalization": lambda: {"mean": 0.1, "variance": 2.0},
        "RNN": lambda: {"cell": layers.LSTMCell(3)},
        "SpectralNormalization": lambda: {"layer": layers.Dense(3)},
        "StackedRNNCells": lambda: {"cells": [layers.GRUCell(2), layers.LSTMCell(2)]},
        "StringLookup": lambda: {"vocabulary": ["0", "1", "2"]},
        "TextVectorization": lambda: {
            "vocabulary": ["0", "1", "2"], "output_mode": "int", "output_sequence_length": 2,
        },
        "TimeDistributed": lambda: {"layer": layers.Dense(3)},
    }  # fmt: skip
    arguments = special[name]() if name in special else {}
    for parameter in surface.required(kind.__init__):
        if parameter not in arguments:
            arguments[parameter] = ARGUMENTS[parameter]
    if surface.accepts(kind.__init__, "seed"):
        arguments["seed"] = 7
    layer = kind(**arguments)
    return layers.RNN(layer) if "RNNCell" in name or name in ("GRUCell", "LSTMCell") else layer


def _keras_layer_cells() -> list[Cell]:
    def made(name: str) -> Cell:
        def logits(x: tf.Tensor, mode: str, keras: Any) -> tf.Tensor:
            inputs, more = _keras_input(name, x)
            value = keras(_keras_layer(name), inputs, **more)
            if name in ("RandomHeight", "RandomWidth"):  # In training, the size is random.
                value = tf.reduce_mean(value, [1, 2])
            return to_logits(value)

        return Cell("keras layers", name, logits=logits)

    return [made(name) for name in surface.keras_layers()]


# Layers that are used on steps [rows, 4, 3] with a mask. Keras passes it to the layers whose `call`
# takes it, and other layers hand it on.
ON_STEPS = (
    "Activation", "Bidirectional", "Conv1D", "Dense", "Dropout", "GRU", "GlobalAveragePooling1D",
    "LSTM", "LayerNormalization", "MultiHeadAttention", "SimpleRNN", "TimeDistributed",
)  # fmt: skip


def _masked_cells() -> list[Cell]:
    def made(name: str) -> Cell:
        def logits(x: tf.Tensor, mode: str, keras: Any) -> tf.Tensor:
            # 0, which is masked, to 4. The first step of a row is not masked.
            ids = tf.maximum(tf.cast(tf.floor(2.5 * (x + 1)), tf.int64), [1, 0, 0, 0])
            steps = keras(tf.keras.layers.Embedding(5, 3, mask_zero=True), ids)
            more = {"value": steps} if name == "MultiHeadAttention" else {}
            return to_logits(keras(_keras_layer(name), steps, **more))

        return Cell("keras masks", name, logits=logits)

    return [made(name) for name in ON_STEPS]


def _keras_values(name: str, y: tf.Tensor, predictions: Any) -> tuple[tf.Tensor, tf.Tensor]:
    """(labels, predictions) in the form of a loss or metric of Keras."""
    p = predictions["y/logistic"]
    both = tf.concat([1 - p, p], 1)
    if re.search(r"Sparse", name):
        return y[:, None], both
    if re.search(r"Categorical|Cosine|KLDiv|F1|FBeta|OneHot", name):
        return tf.one_hot(y, 2), both
    if name in ("Accuracy", "IoU", "MeanIoU"):
        return y[:, None], tf.cast(p > 0.5, tf.int64)
    return tf.cast(y, tf.float32)[:, None], p


def _keras_metric_cells() -> list[Cell]:
    def made(name: str, weighted: bool) -> Cell:
        kind = getattr(tf.keras.metrics, name)

        def metric(y: tf.Tensor, predictions: Any) -> Any:
            names = surface.required(kind.__init__)
            values = {
                **ARGUMENTS, "k": 1, "normalizer": [[1.0]] * 16, "num_thresholds": 20,
            }  # fmt: skip
            made = kind(**{each: values[each] for each in names if each not in ("name",)})
            wanted, got = _keras_values(name, y, predictions)
            more = {"sample_weight": tf.cast(1 + y, tf.float32)} if weighted else {}
            if surface.accepts(made.update_state, "y_true") or not re.fullmatch(
                r"Mean|Sum|MeanTensor", name
            ):
                made.update_state(wanted, got, **more)
            else:
                # MeanTensor needs values of one shape.
                made.update_state(tf.reduce_mean(got) if name == "MeanTensor" else got[:, 0],
                                  **({} if name == "MeanTensor" else more))  # fmt: skip
            return made

        return Cell("keras metrics", f"{name}{' weighted' if weighted else ''}", metric=metric)

    names = surface.keras_metrics()
    return [made(name, False) for name in names] + [made(name, True) for name in names]


def _keras_loss_cells() -> list[Cell]:
    def made(name: str) -> Cell:
        kind = getattr(tf.keras.losses, name)

        def losses(y: tf.Tensor, predictions: Any) -> tf.Tensor:
            wanted, got = _keras_values(name, y, predictions)
            return kind(reduction="none")(wanted, got)

        return Cell("keras losses", name, losses=losses)

    return [made(name) for name in surface.keras_losses()]


def all_cells() -> dict[str, Cell]:
    """Every cell, by its id `<family>/<name>`."""
    families: Sequence[Callable[[], list[Cell]]] = (
        _layer_cells, _loss_cells, _metric_cells, _optimizer_cells, _keras_layer_cells,
        _masked_cells, _keras_metric_cells, _keras_loss_cells, extra_cells.collection_cells,
        extra_cells.table_cells, extra_cells.hook_cells,
    )  # fmt: skip
    cells = [cell for family in families for cell in family()]
    return {cell.id: cell for cell in cells}
