"""An Estimator program as teams wrote them before there was this kit: nothing but `tf.estimator`.

Predicts whether a person rates an article highly, with a custom model_fn around a head, feature
columns, train_and_evaluate and an export. It runs unchanged on every TensorFlow from 2.15 to 2.21;
all that it needs after 2.15 is its first import.

    python examples/legacy_estimator/ratings.py --model_dir=runs/ratings
"""

import estimator_kit.compat  # noqa: F401  # isort: skip  # the one line that was added

import argparse

import numpy as np
import tensorflow as tf

TOPICS = ["arts", "science", "sports", "travel"]


def make_data(rows, seed):
    """Rows whose label depends on age, on the topic, and on the two together."""
    random = np.random.RandomState(seed)
    age = random.uniform(10, 80, rows).astype(np.float32)
    topic = random.randint(len(TOPICS), size=rows)
    logit = np.where(topic == 2, (45 - age) / 8, (age - 45) / 16) + (topic == 0) * 0.5
    label = (random.uniform(size=rows) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    return {"age": age, "topic": np.array(TOPICS)[topic].astype(bytes)}, label


def make_input_fn(rows, seed, training):
    def input_fn():
        dataset = tf.data.Dataset.from_tensor_slices(make_data(rows, seed))
        if training:
            dataset = dataset.shuffle(rows, seed=seed).repeat()
        return dataset.batch(64)

    return input_fn


def feature_columns():
    age = tf.feature_column.numeric_column("age")
    decade = tf.feature_column.bucketized_column(age, [20, 30, 40, 50, 60, 70])
    topic = tf.feature_column.categorical_column_with_vocabulary_list("topic", TOPICS)
    crossed = tf.feature_column.crossed_column([decade, topic], 100)
    return [
        tf.feature_column.indicator_column(decade),
        tf.feature_column.indicator_column(topic),
        tf.feature_column.embedding_column(crossed, 4),
    ]


def model_fn(features, labels, mode, params):
    net = tf.compat.v1.feature_column.input_layer(features, params["columns"])
    for units in params["hidden_units"]:
        net = tf.compat.v1.layers.dense(net, units, activation=tf.nn.relu)
    logits = tf.compat.v1.layers.dense(net, 1)
    head = tf.estimator.BinaryClassHead()
    optimizer = tf.compat.v1.train.AdagradOptimizer(params["learning_rate"])

    def train_op_fn(loss):
        return optimizer.minimize(loss, tf.compat.v1.train.get_global_step())

    return head.create_estimator_spec(
        features, mode, logits, labels=labels, train_op_fn=train_op_fn
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model_dir", required=True, help="where checkpoints and exports go")
    parser.add_argument("--max_steps", type=int, default=600, help="where training ends")
    arguments = parser.parse_args()

    columns = feature_columns()
    estimator = tf.estimator.Estimator(
        model_fn,
        arguments.model_dir,
        tf.estimator.RunConfig(save_checkpoints_steps=200, tf_random_seed=1),
        {"columns": columns, "hidden_units": [16], "learning_rate": 0.1},
    )
    receiver_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        tf.feature_column.make_parse_example_spec(columns)
    )
    metrics, exports = tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(make_input_fn(8000, 0, True), max_steps=arguments.max_steps),
        tf.estimator.EvalSpec(
            make_input_fn(2000, 1, False),
            steps=None,
            exporters=tf.estimator.FinalExporter("final", receiver_fn),
            start_delay_secs=0,
            throttle_secs=0,
        ),
    )
    if metrics is None:
        print(f"nothing to do: trained to step {arguments.max_steps} before")
        return
    print(f"TensorFlow {tf.__version__}: step {metrics['global_step']}, auc {metrics['auc']:.4f}")
    print(f"SavedModel: {exports[0].decode()}")


if __name__ == "__main__":
    main()
