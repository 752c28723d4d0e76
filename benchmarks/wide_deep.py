"""Compares wide & deep training with the canned DNNLinearCombinedClassifier and with DeepCTR.

    python benchmarks/wide_deep.py [--rows 98304] [--rounds 3] [--only canned,deepctr]

The deep part is the model of speed.py with embeddings of two lists. The wide part has the 26
categories, the two lists and ten crosses of 100,000 buckets. Both sides use FTRL and Adagrad. In
the comparison with DeepCTR (`pip install deepctr==0.9.4`, on TensorFlow 2.15), both sides have a
model without the lists and crosses, because DeepCTR's input takes one value for each feature.
"""

from __future__ import annotations

import argparse
import os
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import estimator_kit.compat  # isort: skip
import click_logs
import tensorflow as tf
from side_by_side import compare, started
from training_speed import BATCH, RATE, UNITS, measure_training, run_config

import estimator_kit as ek
from estimator_kit.models import find_model

WIDE_RATE = 0.1
CROSSES = {f"x{i}": [f"c{i}", f"c{i + 10}"] for i in range(10)}


def spec(*, crosses_and_lists: bool):
    """The feature spec of both sides."""
    document = click_logs.document()
    wide = [f"{name}_id" for name in click_logs.CATEGORIES]
    if crosses_and_lists:
        for name in click_logs.LISTS:
            document["features"][name] = {"dtype": "string", "shape": "variable"}
            document["columns"][f"{name}_id"] = {"hash_bucket": name, "size": click_logs.BUCKETS}
            embedding = {"embedding": f"{name}_id", "dimension": click_logs.DIMENSION}
            document["columns"][f"{name}_emb"] = embedding
            document["groups"]["deep"].append(f"{name}_emb")
        for name, keys in CROSSES.items():
            document["columns"][name] = {"crossed": keys, "size": click_logs.BUCKETS}
        wide += [*(f"{name}_id" for name in click_logs.LISTS), *CROSSES]
    document["groups"]["wide"] = wide
    return ek.parse_spec(document)


def ours(the_spec, folder: str):
    """The kit's model."""
    params = {"hidden_units": UNITS, "learning_rate": RATE, "linear_learning_rate": WIDE_RATE}
    model = find_model("wide_deep")(the_spec, params)
    return tf.estimator.Estimator(model, f"{folder}/ours", run_config(), params={})


def optimizers():
    """Of the linear and of the deep part of a peer."""
    train = tf.compat.v1.train
    return {
        "linear_optimizer": lambda: train.FtrlOptimizer(WIDE_RATE),
        "dnn_optimizer": lambda: train.AdagradOptimizer(RATE),
    }


def canned(the_spec, folder: str):
    """TensorFlow's model."""
    return tf.compat.v1.estimator.DNNLinearCombinedClassifier(
        model_dir=f"{folder}/peer",
        linear_feature_columns=ek.feature_columns(the_spec, "wide"),
        dnn_feature_columns=ek.feature_columns(the_spec, "deep"),
        dnn_hidden_units=UNITS,
        config=run_config(),
        **optimizers(),
    )


def deepctr(the_spec, folder: str):
    """DeepCTR's model, without the regularization that it has by default and ours has not."""
    from deepctr.estimator.models.wdl import WDLEstimator

    return WDLEstimator(
        ek.feature_columns(the_spec, "wide"),
        ek.feature_columns(the_spec, "deep"),
        UNITS,
        l2_reg_linear=0,
        l2_reg_embedding=0,
        model_dir=f"{folder}/peer",
        config=run_config(),
        **{name: make() for name, make in optimizers().items()},
    )


PEERS = {
    "canned": ("the canned DNNLinearCombinedClassifier", canned, True),
    "deepctr": ("DeepCTR's WDLEstimator", deepctr, False),
}


def measure(peer_name: str, side: str, arguments: argparse.Namespace) -> None:
    """Measures one side of a comparison when the standard input asks for it."""
    _, make_peer, rich = PEERS[peer_name]
    paths = click_logs.generate(arguments.data, arguments.rows, lists=rich)
    the_spec = spec(crosses_and_lists=rich)
    with tempfile.TemporaryDirectory() as folder:
        if side == "ours":
            model = ours(the_spec, folder)
            input_fn = ek.train_input_fn(the_spec, paths, batch_size=BATCH)
        else:
            model = make_peer(the_spec, folder)
            input_fn = click_logs.canned_input_fn(paths, BATCH, the_spec)
        measure_training(model, input_fn, arguments.rows // BATCH)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=96 * BATCH, help="of an epoch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", default="data/benchmarks")
    parser.add_argument("--only", default="canned")
    parser.add_argument("--side", help="measures one side of a comparison")
    arguments = parser.parse_args()
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    if arguments.side:
        return measure(arguments.only, arguments.side, arguments)
    for name in arguments.only.split(","):
        click_logs.generate(arguments.data, arguments.rows, lists=PEERS[name][2])
        same = [__file__, f"--only={name}", f"--rows={arguments.rows}", f"--data={arguments.data}"]
        with started({side: [*same, f"--side={side}"] for side in ("ours", "peer")}) as sides:
            compare(
                f"wide & deep training, compared with {PEERS[name][0]}",
                sides["ours"], sides["peer"], rounds=arguments.rounds, unit="rows/s",
            )  # fmt: skip


if __name__ == "__main__":
    main()
