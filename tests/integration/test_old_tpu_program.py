"""A TPUEstimator program of TensorFlow 1, in the style of BERT's, runs with one command.

The program begins with `from __future__`, so no import can come before its first line. Its model
is small enough to be trained in NumPy as well, and every result is compared with that.
"""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.estimator_kit.compat.support import LIMIT_S, ROOT, environment

v1 = tf.compat.v1

PROGRAM = '''\
"""Classifies sentences."""

from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import collections
import csv
import os

import tensorflow as tf

flags = tf.flags
FLAGS = flags.FLAGS

flags.DEFINE_string("data_dir", None, "The folder with train.tsv, dev.tsv and vocab.txt.")
flags.DEFINE_string("output_dir", None, "Where checkpoints and results are written.")
flags.DEFINE_string("export_dir", None, "Where the SavedModel is written.")
flags.DEFINE_bool("do_train", False, "Whether to train.")
flags.DEFINE_bool("do_eval", False, "Whether to evaluate.")
flags.DEFINE_bool("do_predict", False, "Whether to predict.")
flags.DEFINE_integer("max_seq_length", 6, "Words of a sentence.")
flags.DEFINE_integer("train_batch_size", 32, "Batch size for training.")
flags.DEFINE_integer("eval_batch_size", 3, "Batch size for evaluation.")
flags.DEFINE_integer("train_steps", 10, "Steps of training.")
flags.DEFINE_float("learning_rate", 0.1, "The learning rate.")
flags.DEFINE_bool("use_tpu", False, "Whether to use a TPU.")
tf.flags.DEFINE_string("tpu_name", None, "The name of the TPU.")
tf.flags.DEFINE_string("master", None, "TensorFlow master URL.")


def read_vocab():
    vocab = collections.OrderedDict()
    with tf.gfile.GFile(os.path.join(FLAGS.data_dir, "vocab.txt"), "r") as reader:
        for line in reader:
            vocab[line.strip()] = len(vocab)
    return vocab


def write_records(name, vocab):
    path = os.path.join(FLAGS.output_dir, name + ".tf_record")
    writer = tf.python_io.TFRecordWriter(path)
    with tf.gfile.Open(os.path.join(FLAGS.data_dir, name + ".tsv"), "r") as f:
        for label, text in csv.reader(f, delimiter="\\t"):
            ids = [vocab[word] for word in text.split()][:FLAGS.max_seq_length]
            mask = [1] * len(ids)
            while len(ids) < FLAGS.max_seq_length:
                ids.append(0)
                mask.append(0)
            features = collections.OrderedDict()
            for key, values in (("ids", ids), ("mask", mask), ("label", [int(label)])):
                features[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString())
    writer.close()
    return path


def input_fn_builder(path, is_training):
    name_to_features = {
        "ids": tf.FixedLenFeature([FLAGS.max_seq_length], tf.int64),
        "mask": tf.FixedLenFeature([FLAGS.max_seq_length], tf.int64),
        "label": tf.FixedLenFeature([], tf.int64),
    }

    def decode(record):
        example = tf.parse_single_example(record, name_to_features)
        return {key: tf.to_int32(value) for key, value in example.items()}

    def input_fn(params):
        d = tf.data.TFRecordDataset(path)
        if is_training:
            d = d.repeat()
        return d.apply(tf.contrib.data.map_and_batch(
            decode, batch_size=params["batch_size"], drop_remainder=is_training))

    return input_fn


def model_fn_builder(vocab_size):
    def model_fn(features, labels, mode, params):  # The labels are in `features`.
        for name in sorted(features.keys()):
            tf.logging.info("  name = %s, shape = %s" % (name, features[name].shape))
        words = tf.one_hot(features["ids"], vocab_size) * tf.to_float(features["mask"])[:, :, None]
        counts = tf.reduce_sum(words, axis=1)
        with tf.variable_scope("output"):
            weights = tf.get_variable(
                "weights", [counts.shape[-1].value, 2], initializer=tf.zeros_initializer())
            bias = tf.get_variable("bias", [2], initializer=tf.zeros_initializer())
        logits = tf.nn.bias_add(tf.matmul(counts, weights), bias)
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.contrib.tpu.TPUEstimatorSpec(
                mode=mode, predictions={"probabilities": tf.nn.softmax(logits)})

        label_ids = features["label"]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=label_ids, logits=logits)
        loss = tf.reduce_mean(losses)
        if mode == tf.estimator.ModeKeys.TRAIN:
            optimizer = tf.train.GradientDescentOptimizer(FLAGS.learning_rate)
            if FLAGS.use_tpu:
                optimizer = tf.contrib.tpu.CrossShardOptimizer(optimizer)
            train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
            return tf.contrib.tpu.TPUEstimatorSpec(
                mode=mode, loss=loss, train_op=train_op, scaffold_fn=None)

        def metric_fn(losses, label_ids, logits):
            predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
            return {
                "eval_accuracy": tf.metrics.accuracy(label_ids, predictions),
                "eval_loss": tf.metrics.mean(values=losses),
            }

        return tf.contrib.tpu.TPUEstimatorSpec(
            mode=mode, loss=loss, eval_metrics=(metric_fn, [losses, label_ids, logits]))

    return model_fn


def serving_input_receiver_fn():
    shape = [None, FLAGS.max_seq_length]
    features = {key: tf.placeholder(tf.int32, shape, name=key) for key in ("ids", "mask")}
    return tf.estimator.export.ServingInputReceiver(features, features)


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    tf.gfile.MakeDirs(FLAGS.output_dir)
    vocab = read_vocab()
    tpu_cluster_resolver = None
    if FLAGS.use_tpu and FLAGS.tpu_name:
        tpu_cluster_resolver = tf.contrib.cluster_resolver.TPUClusterResolver(FLAGS.tpu_name)
    run_config = tf.contrib.tpu.RunConfig(
        cluster=tpu_cluster_resolver,
        master=FLAGS.master,
        model_dir=FLAGS.output_dir,
        save_checkpoints_steps=1000,
        tpu_config=tf.contrib.tpu.TPUConfig(
            iterations_per_loop=1000,
            num_shards=8,
            per_host_input_for_training=tf.contrib.tpu.InputPipelineConfig.PER_HOST_V2))
    estimator = tf.contrib.tpu.TPUEstimator(
        use_tpu=FLAGS.use_tpu,
        model_fn=model_fn_builder(len(vocab)),
        config=run_config,
        train_batch_size=FLAGS.train_batch_size,
        eval_batch_size=FLAGS.eval_batch_size,
        predict_batch_size=FLAGS.eval_batch_size)

    if FLAGS.do_train:
        path = write_records("train", vocab)
        estimator.train(input_fn_builder(path, True), max_steps=FLAGS.train_steps)
    dev = write_records("dev", vocab)
    if FLAGS.do_eval:
        result = estimator.evaluate(input_fn_builder(dev, False))
        with tf.gfile.GFile(os.path.join(FLAGS.output_dir, "eval_results.txt"), "w") as writer:
            for key in sorted(result.keys()):
                tf.logging.info("  %s = %s", key, str(result[key]))
                writer.write("%s = %s\\n" % (key, str(result[key])))
    if FLAGS.do_predict:
        with tf.gfile.GFile(os.path.join(FLAGS.output_dir, "predictions.tsv"), "w") as writer:
            for prediction in estimator.predict(input_fn_builder(dev, False)):
                writer.write("\\t".join(str(p) for p in prediction["probabilities"]) + "\\n")
    if FLAGS.export_dir:
        estimator.export_savedmodel(FLAGS.export_dir, serving_input_receiver_fn)


if __name__ == "__main__":
    flags.mark_flag_as_required("data_dir")
    flags.mark_flag_as_required("output_dir")
    tf.app.run()
'''

WORDS = ("bad", "book", "film", "good")
TRAIN = ((1, "good film"), (0, "bad film"), (1, "good book good"), (0, "bad bad book"))
DEV = ((1, "good good book"), (0, "bad book film"), (0, "good film"), (0, "bad"), (1, "film"))
STEPS = 10
RATE = 0.5


def counts_and_labels(rows):
    counts = [[text.split().count(word) for word in WORDS] for _, text in rows]
    return np.array(counts, np.float64), np.array([label for label, _ in rows])


def softmax(logits):
    powers = np.exp(logits)
    return powers / powers.sum(1, keepdims=True)


def trained():
    """The same model, trained in NumPy: gradient descent on all rows, from zeros."""
    counts, labels = counts_and_labels(TRAIN)
    weights, bias = np.zeros((len(WORDS), 2)), np.zeros(2)
    for _ in range(STEPS):
        errors = (softmax(counts @ weights + bias) - np.eye(2)[labels]) / len(labels)
        weights, bias = weights - RATE * counts.T @ errors, bias - RATE * errors.sum(0)
    return weights, bias


@pytest.mark.ci
def test_it_trains_evaluates_predicts_and_exports(tmp_path):
    program = tmp_path / "run_classifier.py"
    program.write_text(PROGRAM)
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    for name, rows in (("train", TRAIN), ("dev", DEV)):
        lines = "".join(f"{label}\t{text}\n" for label, text in rows)
        (tmp_path / f"{name}.tsv").write_text(lines)
    output = tmp_path / "output"
    flags = (
        f"--data_dir={tmp_path} --output_dir={output} --export_dir={tmp_path / 'export'} "
        f"--do_train --do_eval=true --do_predict=true --train_batch_size={len(TRAIN)} "
        f"--train_steps={STEPS} --learning_rate={RATE}"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "estimator_kit.compat",
            "--tf1",
            "run_classifier.py",
            *flags.split(),
        ],
        env=environment({"PYTHONPATH": str(ROOT)}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "name = ids, shape = (?, 6)" in done.stderr  # the shape of TensorFlow 1
    assert program.read_text() == PROGRAM

    weights, bias = trained()
    reader = tf.train.load_checkpoint(str(output))
    assert reader.get_variable_to_shape_map() == {
        "output/weights": [4, 2],
        "output/bias": [2],
        "global_step": [],
    }
    assert reader.get_tensor("output/weights") == pytest.approx(weights, abs=1e-6)
    assert reader.get_tensor("output/bias") == pytest.approx(bias, abs=1e-6)

    counts, labels = counts_and_labels(DEV)
    expected = softmax(counts @ weights + bias)
    losses = -np.log(expected[np.arange(len(labels)), labels])
    results = dict(
        line.split(" = ") for line in (output / "eval_results.txt").read_text().splitlines()
    )
    assert (
        {key: float(value) for key, value in results.items()}
        == pytest.approx(
            {
                "eval_accuracy": 0.6,  # It is wrong about "good film" and "film".
                "eval_loss": losses.mean(),
                "loss": (losses[:3].mean() + losses[3:].mean()) / 2,  # the mean of two batches
                "global_step": STEPS,
            },
            abs=1e-6,
        )
    )
    assert np.loadtxt(output / "predictions.tsv") == pytest.approx(expected, abs=1e-6)

    (exported,) = (tmp_path / "export").iterdir()
    ids = [[WORDS.index(word) for word in text.split()] for _, text in DEV]
    inputs = {
        "ids": [row + [0] * (6 - len(row)) for row in ids],
        "mask": [[1] * len(row) + [0] * (6 - len(row)) for row in ids],
    }
    with tf.Graph().as_default(), v1.Session() as session:
        # TPUEstimator writes a second graph for TPUs, so the tag is needed.
        model = v1.saved_model.load(session, ["serve"], str(exported))
        signature = model.signature_def["serving_default"]
        answer = session.run(
            signature.outputs["probabilities"].name,
            {signature.inputs[name].name: values for name, values in inputs.items()},
        )
    assert answer == pytest.approx(expected, abs=1e-6)
