"""Small SavedModels with known answers, and a server for them.

`write_version(folder, 3)` makes version 3. Its default signature returns y = 3 * x for x of the
shape [rows, 2], and echoes the strings `name`. Its Examples have one float `v`: `classify` scores
the classes `low` and `high` with -v and v, `regress` returns 3 * v, and `by_examples` returns 3 * v
as `value`. `half_plus_two` returns x / 2 + 2 for x of the shape [rows, 1].

`write_form(folder, 3, inputs, outputs)` makes a version with any inputs and outputs.
"""

from __future__ import annotations

import contextlib
import pathlib
from unittest import mock

import tensorflow as tf

import estimator_kit as ek

v1 = tf.compat.v1
saved_model = v1.saved_model


def write_version(folder, version, *, warm_up=None):
    """Writes a version with the `PredictionLog`s of its warm-up; returns its path."""
    path = pathlib.Path(folder) / str(version)
    with tf.Graph().as_default(), v1.Session() as session:
        factor = v1.get_variable("factor", initializer=float(version))
        # Two variables, so that a test can make a version that lacks one of them.
        v1.get_variable("padding", initializer=tf.zeros([1000]))
        x = v1.placeholder(tf.float32, [None, 2])
        name = v1.placeholder(tf.string, [None])
        half = v1.placeholder(tf.float32, [None, 1])
        count = v1.placeholder(tf.int64, [None])
        inputs = v1.placeholder(tf.string, [None])
        parsed = tf.io.parse_example(inputs, {"v": tf.io.FixedLenFeature([], tf.float32)})["v"]
        labels = tf.tile([["low", "high"]], [tf.shape(parsed)[0], 1])
        predict = saved_model.build_signature_def
        signatures = {
            "serving_default": _signature({"x": x, "name": name},
                                          {"y": x * factor, "name": tf.identity(name)}, "predict"),
            "counts": _signature({"count": count},
                                 {"double": 2 * count, "raw_bytes": tf.as_string(count)},
                                 "predict"),
            "raw": _signature({"name": name}, {"name": tf.identity(name)}, "predict"),
            "by_examples": _signature({"examples": inputs}, {"value": parsed * factor}, "predict"),
            "classify": _signature({"inputs": inputs},
                                   {"classes": labels, "scores": tf.stack([-parsed, parsed], 1)},
                                   "classify"),
            "regress": _signature({"inputs": inputs}, {"outputs": parsed * factor}, "regress"),
            "half_plus_two": _signature({"x": half}, {"y": half / 2 + 2}, "predict"),
            "constant": _signature({}, {"one": tf.constant(1.0)}, "predict"),
            "odd": predict({"x": info(x)}, {"y": info(x * 2.0)}, "no/method"),
        }  # fmt: skip
        session.run(v1.global_variables_initializer())
        builder = saved_model.Builder(str(path))
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    if warm_up is not None:
        extra = path / "assets.extra"
        extra.mkdir()
        with tf.io.TFRecordWriter(str(extra / "tf_serving_warmup_requests")) as writer:
            for log in warm_up:
                writer.write(log.SerializeToString())
    return path


def write_form(folder, version, inputs, outputs):
    """Writes a version whose values tell which version and output they are of; see `value_of`.

    Args:
      folder, version: see `write_version`.
      inputs, outputs: `{name: dtype}`, of the shape [rows].
    """
    path = pathlib.Path(folder) / str(version)
    with tf.Graph().as_default(), v1.Session() as session:
        fed = {name: v1.placeholder(dtype, [None]) for name, dtype in inputs.items()}
        x = tf.add_n([tf.cast(values, tf.float64) for values in fed.values()])
        made = {}
        for name, dtype in outputs.items():
            number = x + value_of(version, name, "float64", 0)
            if dtype == "string":
                made[name] = tf.strings.join([f"{version} {name} ", tf.as_string(x, precision=1)])
            else:
                made[name] = tf.cast(number, dtype)
        builder = saved_model.Builder(str(path))
        signature = _signature(fed, made, "predict")
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()
    return path


def value_of(version, name, dtype, x):
    """The value of an output for inputs with the sum x. A float32 can hold it."""
    if dtype == "string":
        return f"{version} {name} {x:.1f}".encode()
    number = 1000 * version + 10 * ord(name[0]) + x + 0.75
    return number if dtype.startswith("float") else int(number)


def info(tensor):
    return saved_model.build_tensor_info(tensor)


def _signature(inputs, outputs, method):
    return saved_model.build_signature_def(
        {name: info(t) for name, t in inputs.items()},
        {name: info(t) for name, t in outputs.items()},
        f"tensorflow/serving/{method}",
    )


def config(folder, **changes):
    values = {
        "mode": "serve", "serving_models": (f"ads={folder}",), "serving_grpc_port": 0,
        "serving_rest_port": 0,
    }  # fmt: skip
    return ek.ExperimentConfig(**{**values, **changes})


@contextlib.contextmanager
def serving(folder, **changes):
    """Servers for a folder: their gRPC address, their URL, and their models. Requests: 1 MiB."""
    from estimator_kit.serving import server

    with mock.patch.object(server, "_MOST_BYTES", 2**20):
        running = server.running(*[config(folder, **changes)] * 2)
        with running as (made, models):
            yield (*made.addresses, models)


def example(**features):
    made = tf.train.Example()
    for name, value in features.items():
        made.features.feature[name].float_list.value.append(value)
    return made
