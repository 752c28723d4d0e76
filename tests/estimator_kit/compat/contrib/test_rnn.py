"""Recurrent cells, compared with an LSTM in NumPy; names of variables were recorded from 1.15."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.compat.contrib import rnn

v1 = tf.compat.v1

T, B, D, U = 5, 3, 4, 6
RNG = np.random.RandomState(0)
INPUTS = RNG.randn(T, B, D).astype("float32")
KERNEL = RNG.randn(D + U, 4 * U).astype("float32") / 2
BIAS = RNG.randn(4 * U).astype("float32") / 2
LENGTHS = [5, 2, 0]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(inputs, lengths, forget_bias=1.0):
    """Outputs [T, B, U], the final cell and output. The gates are input, new, forget, output."""
    cell, output = np.zeros([B, U]), np.zeros([B, U])
    outputs = np.zeros([T, B, U])
    for row, length in enumerate(lengths):
        for t in range(length):
            gates = np.concatenate([inputs[t, row], output[row]]) @ KERNEL + BIAS
            i, j, f, o = np.split(gates, 4)
            cell[row] = sigmoid(f + forget_bias) * cell[row] + sigmoid(i) * np.tanh(j)
            output[row] = outputs[t, row] = sigmoid(o) * np.tanh(cell[row])
    return outputs, cell, output


def run(build):
    """The results of `build`, and the names of the variables, which get KERNEL and BIAS."""
    with tf.Graph().as_default(), v1.Session() as session:
        tensors = build(tf.constant(INPUTS))
        session.run(v1.global_variables_initializer())
        variables = v1.trainable_variables()
        for variable, value in zip(variables, (KERNEL, BIAS)):
            session.run(v1.assign(variable, value))
        return session.run(tensors), [v.op.name for v in variables]


def flat(result):
    outputs, (cell, output) = result
    return outputs, cell, output


def test_fused_lstm():
    def build(inputs):
        return flat(rnn.LSTMBlockFusedCell(U)(inputs, dtype=tf.float32, sequence_length=LENGTHS))

    found, names = run(build)
    for value, expected in zip(found, lstm(INPUTS, LENGTHS)):
        np.testing.assert_allclose(value, expected, atol=1e-5)
    assert names == ["lstm_fused_cell/kernel", "lstm_fused_cell/bias"]


def test_reversed_fused_lstm():
    def build(inputs):
        cell = rnn.TimeReversedFusedRNN(rnn.LSTMBlockFusedCell(U, forget_bias=0.5))
        with v1.variable_scope("bw"):
            return flat(cell(inputs, dtype=tf.float32, sequence_length=[5, 2, 1]))

    flipped = INPUTS[::-1].copy()
    flipped[:2, 1] = INPUTS[1::-1, 1]
    flipped[0, 2] = INPUTS[0, 2]
    outputs, cell, output = lstm(flipped, [5, 2, 1], 0.5)
    outputs[:, 0] = outputs[::-1, 0].copy()
    outputs[:2, 1] = outputs[1::-1, 1].copy()
    found, names = run(build)
    for value, expected in zip(found, (outputs, cell, output)):
        np.testing.assert_allclose(value, expected, atol=1e-5)
    assert names == ["bw/lstm_fused_cell/kernel", "bw/lstm_fused_cell/bias"]


def test_block_cell_has_a_gradient():
    def build(inputs):
        result = v1.nn.dynamic_rnn(
            rnn.LSTMBlockCell(U), inputs, LENGTHS, dtype=tf.float32, time_major=True
        )
        gradients = tf.gradients(result[0], v1.trainable_variables())
        return flat(result), [v1.reduce_sum(v1.abs(g)) for g in gradients]

    (found, gradients), names = run(build)
    for value, expected in zip(found, lstm(INPUTS, LENGTHS)):
        np.testing.assert_allclose(value, expected, atol=1e-5)
    assert min(gradients) > 0.1
    assert names == ["rnn/lstm_cell/kernel", "rnn/lstm_cell/bias"]


def test_a_list_of_steps_gives_a_list():
    def build(inputs):
        return rnn.LSTMBlockFusedCell(U)(v1.unstack(inputs), dtype=tf.float32)[0]

    found, _ = run(build)
    np.testing.assert_allclose(np.stack(found), lstm(INPUTS, [T] * B)[0], atol=1e-5)


def normalized(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)


def test_layer_norm_cell():
    before = RNG.randn(B, U).astype("float32")

    def build(inputs):
        cell = rnn.LayerNormBasicLSTMCell(U)
        state = v1.nn.rnn_cell.LSTMStateTuple(tf.constant(before), tf.zeros([B, U]))
        return cell(inputs[0], state)[0]

    with tf.Graph().as_default(), v1.Session() as session:
        output = build(tf.constant(INPUTS))
        variables = v1.trainable_variables()
        session.run(v1.global_variables_initializer())
        session.run(v1.assign(variables[0], KERNEL))
        found = session.run(output)
    scope = "layer_norm_basic_lstm_cell"
    i, j, f, o = np.split(np.concatenate([INPUTS[0], np.zeros([B, U])], 1) @ KERNEL, 4, axis=1)
    cell = before * sigmoid(normalized(f) + 1) + sigmoid(normalized(i)) * np.tanh(normalized(j))
    cell = normalized(cell)
    np.testing.assert_allclose(found, np.tanh(cell) * sigmoid(normalized(o)), atol=1e-4)
    assert [v.op.name for v in variables] == [
        f"{scope}/kernel",
        *(f"{scope}/{part}/{name}" for part in ("input", "transform", "forget", "output", "state")
          for name in ("gamma", "beta")),
    ]  # fmt: skip


def test_stack_of_bidirectional_layers_has_the_names_of_1_15():
    with tf.Graph().as_default():
        cells = [[rnn.LSTMBlockCell(n) for n in (3, 2)] for _ in range(2)]
        outputs, forward, backward = rnn.stack_bidirectional_dynamic_rnn(
            *cells, tf.constant(INPUTS), dtype=tf.float32, time_major=True
        )
        assert outputs.shape.as_list() == [T, B, 4]
        assert (len(forward), len(backward)) == (2, 2)
        assert [v.op.name for v in v1.trainable_variables()] == [
            f"stack_bidirectional_rnn/cell_{layer}/bidirectional_rnn/{way}/lstm_cell/{name}"
            for layer in (0, 1)
            for way in ("fw", "bw")
            for name in ("kernel", "bias")
        ]


@pytest.mark.parametrize("shape", [[2, 3, 4], [2, 3], [2]])
def test_transposes_batch_and_time(shape):
    with tf.Graph().as_default():
        swapped = rnn.transpose_batch_time(tf.zeros(shape))
        assert swapped.shape.as_list() == [*shape[:2][::-1], *shape[2:]]
