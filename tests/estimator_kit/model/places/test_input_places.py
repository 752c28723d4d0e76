"""Which column owns which rows of a kernel, and which objective its columns."""

from __future__ import annotations

import pytest
import tensorflow as tf

import estimator_kit as ek
from estimator_kit.checkpoints.warm_start.place_moves import differences, place_move
from estimator_kit.checkpoints.warm_start.row_moves import MeaningError
from estimator_kit.model.places import input_places

v1 = tf.compat.v1


def places_of(build):
    """The places of the variables of a graph over columns a (2 places), b (1) and c (2)."""
    with tf.Graph().as_default() as graph:
        columns = {}
        for name, width in {"a": 2, "b": 1, "c": 2}.items():
            columns[name] = v1.placeholder(tf.float32, [None, width])
            input_places.mark(name, columns[name])
        build(**columns)
        return input_places.find(graph)


def variable(*shape, name="w"):
    return v1.get_variable(name, shape)


ABC = (("a", 2), ("b", 1), ("c", 2))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda a, b, c: tf.concat([a, b, c], 1) @ variable(5, 3), (ABC, None)),
        (lambda a, b, c: tf.nn.relu(tf.concat([a, b, c], 1) * 2.0) @ variable(5, 3), (ABC, None)),
        (lambda a, b, c: tf.concat([a, b], 1) + variable(3), (ABC[:2],)),
        # The output of a kernel that is added to its input has the input's places.
        (lambda a, b, c: a + tf.concat([b, c], 1) @ variable(3, 2), (ABC[1:], (("a", 2),))),
        (
            lambda a, b, c: tf.linalg.matmul(a, variable(3, 2), transpose_b=True),
            (None, (("a", 2),)),
        ),
        # What is behind a kernel is of no column.
        (lambda a, b, c: tf.concat([a @ tf.ones([2, 4]), c], 1) @ variable(6, 1),
         ((("", 4), ("c", 2)), None)),
        (lambda a, b, c: tf.tensordot(tf.stack([a, c], 1), variable(2, 3), 1), None),
        (
            lambda a, b, c: tf.reshape(tf.stack([a, c], 1), [-1, 4]) @ variable(4, 3),
            ((("a", 2), ("c", 2)), None),
        ),
        (
            lambda a, b, c: tf.reshape(tf.transpose(tf.stack([a, c], 1), [0, 2, 1]), [-1, 4])
            @ variable(4, 3),
            ((("a", 1), ("c", 1), ("a", 1), ("c", 1)), None),
        ),
        (lambda a, b, c: tf.split(tf.concat([a, b, c], 1), [3, 2], 1)[0] @ variable(3, 1),
         (ABC[:2], None)),
        (lambda a, b, c: tf.concat([a, b, c], 1)[:, 1:4] @ variable(3, 1),
         ((("a", 1), ("b", 1), ("c", 1)), None)),
        (lambda a, b, c: tf.einsum("nk,ekl->nel", a, variable(3, 2, 4)), (None, (("a", 2),), None)),
        (
            lambda a, b, c: tf.reshape(a[:, :, None] * c[:, None, :], [-1, 4]) @ variable(4, 1),
            ((("a*c", 2), ("a*c", 2)), None),
        ),
        (lambda a, b, c: (a - c) @ variable(2, 1), ((("a&c", 2),), None)),
        (lambda a, b, c: (b - 3.0) / variable(1, name="deviation") @ variable(1, 1),
         ((("b", 1),), None)),
        (lambda a, b, c: (tf.reduce_max(a, 1, keepdims=True) + b) @ variable(1, 1), None),
        (lambda a, b, c: tf.cumsum(tf.concat([a, c], 1), 1) @ variable(4, 1),
         ((("?Cumsum(a, c)", 4),), None)),
        # A list of one axis, which TensorFlow takes, too.
        (lambda a, b, c: tf.squeeze(tf.expand_dims(a, [1]), 1) @ variable(2, 1),
         ((("a", 2),), None)),
        # The walk cannot read a reshape of no values, and goes on.
        (lambda a, b, c: [tf.reshape(a[:, :0] + c[:, :0], [-1, 3]), a @ variable(2, 1)][1],
         ((("a", 2),), None)),
        (
            lambda a, b, c: tf.nn.conv2d(
                tf.reshape(c, [-1, 1, 2, 1]), variable(1, 1, 1, 3), 1, "SAME"
            ),
            None,
        ),
    ],
)  # fmt: skip
def test_places_of_the_axes_of_a_variable(build, expected):
    found = places_of(build)
    assert found.get("w") == expected


def test_a_keras_layer_over_fields():
    def build(a, b, c):
        fields = tf.stack([a, c], 1)
        units = tf.keras.layers.Dense(3, name="query")(fields)
        tf.keras.layers.Dense(1, name="logits")(tf.keras.layers.Flatten()(units))

    found = places_of(build)
    assert found == {"logits/kernel": ((("a", 3), ("c", 3)), None)}


@pytest.fixture
def spec(document, tmp_path):
    return ek.parse_spec(document, directory=tmp_path)


def test_moves_go_by_column_and_within_a_column_by_word(document, spec, tmp_path):
    document["columns"]["city"]["list"] = ["oslo", "bern", "rome"]
    now = ek.parse_spec(document, directory=tmp_path)

    def move(old, new):
        found = place_move(old, new, spec, now)
        return None if found is None else found.tolist()

    assert move((("price", 1), ("user_emb", 3)), (("price", 1), ("user_emb", 3))) is None
    assert move((("price", 1), ("user_emb", 2)), (("new", 2), ("user_emb", 2), ("price", 1))) == [
        -1, -1, 1, 2, 0,
    ]  # fmt: skip
    assert move((("price", 1), ("gone", 2), ("price", 1)), (("price", 1), ("price", 1))) == [0, 3]
    # city_hot had rome, oslo, and a bucket for other words. Now it has oslo, bern, rome and that
    # bucket.
    assert move((("price", 1), ("city_hot", 3)), (("city_hot", 4), ("price", 1))) == [
        2, -1, 1, 3, 0,
    ]  # fmt: skip
    # Another number of places of a column without words has nothing to go by.
    assert move((("price", 1), ("user_emb", 3)), (("price", 1), ("user_emb", 2))) == [0, -1, -1]
    with pytest.raises(MeaningError, match=r"it reads city_hot, but in the source it reads price$"):
        move((("price", 1),), (("city_hot", 4),))
    with pytest.raises(MeaningError, match=r"through Cumsum\(price\), which the kit cannot trace"):
        move((("?Cumsum(price)", 1),), (("?Cumsum(price, tag)", 1),))
    assert move((("?Cumsum(price)", 2),), (("?Cumsum(price)", 2),)) is None


def test_differences_are_those_that_shapes_do_not_show():
    old = {"k": ((("a", 1), ("b", 1)), None), "l": ((("a", 2),),), "gone": ((("a", 1),),)}
    assert differences(old, old) == []
    assert differences(old, {**old, "l": ((("a", 2), ("b", 1)),)}) == []
    # A record of an earlier version does not know objectives.
    assert differences(old, {**old, "l": ((("a&units:x", 2),),)}) == []
    new = {"k": ((("b", 1), ("a", 1)), None), "l": ((("c", 2),),), "new": ((("a", 1),),)}
    assert differences(old, new) == [
        "k: its rows belonged to a, b; now to b, a",
        "l: its rows belonged to a; now to c",
    ]


def outputs_of(build):
    """The places of variables. `build(hidden)` returns the logits of objectives a (1) and b (2)."""
    with tf.Graph().as_default() as graph:
        made = build(v1.placeholder(tf.float32, [None, 4]))
        widths, parts = {"a": 1, "b": 2}, made if isinstance(made, dict) else {"": made}
        for name, tensor in parts.items():
            input_places.mark_logits(tensor, {name: widths[name]} if name else widths)
        for name, tensor in parts.items():  # Not a part of the model.
            assert (tensor + variable(tensor.shape[1], name=f"loss_{name}")).shape[1]
        return input_places.find(graph)


def chained(hidden):
    first = hidden @ variable(4, 2)
    return {"b": first, "a": tf.nn.softmax(first) @ variable(2, 1, name="v")}


AB = (("logits:a", 1), ("logits:b", 2))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda h: h @ variable(4, 3) + variable(3, name="v"), {"w": (None, AB), "v": (AB,)}),
        (lambda h: tf.concat([h @ variable(4, 1), h @ variable(4, 2, name="v")], 1),
         {"w": (None, AB[:1]), "v": (None, AB[1:])}),
        (lambda h: dict(zip("ab", tf.split(h @ variable(4, 3), [1, 2], 1))), {"w": (None, AB)}),
        (lambda h: {"b": (h @ variable(4, 4))[:, 1:3]},
         {"w": (None, (("", 1), ("logits:b", 2), ("", 1)))}),
        # The terms of one logit.
        (lambda h: {"a": h @ variable(4, 1) + h @ variable(4, 1, name="v")},
         {"w": (None, AB[:1]), "v": (None, AB[:1])}),
        (lambda h: {"a": tf.reshape(tf.nn.relu(h @ variable(4, 1)), [-1, 1])},
         {"w": (None, AB[:1])}),
        # What the walk cannot go back through.
        (lambda h: {"a": tf.cumsum(h @ variable(4, 1), 1)}, {"?logits": (AB[:1],)}),
        (lambda h: tf.reshape(h @ variable(4, 6), [-1, 3]), {"?logits": (AB,)}),
        (lambda h: {"a": (h @ variable(4, 1)) * tf.sigmoid(h @ variable(4, 1, name="v"))},
         {"?logits": (AB[:1],)}),
        # A table of logits.
        (lambda h: {"b": tf.gather(variable(9, 2), tf.argmax(h, 1))}, {"w": (None, AB[1:])}),
        # Logits that feed another layer.
        (chained, {"w": (None, AB[1:]), "v": (AB[1:], AB[:1])}),
    ],
)  # fmt: skip
def test_logits_own_the_columns_of_what_makes_them(build, expected):
    assert outputs_of(build) == expected


def test_units_that_only_some_objectives_use():
    with tf.Graph().as_default() as graph:
        shared = v1.placeholder(tf.float32, [None, 4])
        with input_places.owned("a"):
            own = tf.nn.relu(shared @ variable(4, 3) + variable(3, name="bias"))
        with input_places.owned():
            common = shared @ variable(4, 3, name="common")
        experts = tf.stack([own, own, common], 1)
        mixed = tf.einsum("ne,neu->nu", shared @ variable(4, 3, name="gate"), experts)
        input_places.mark_logits(mixed @ variable(3, 1, name="last"), {"a": 1})
        assert input_places.find(graph) == {
            "w": (None, (("units:a", 3),)),
            "bias": ((("units:a", 3),),),
            "gate": (None, (("units:a", 1), ("units:a", 1), ("", 1))),
            "last": (None, (("logits:a", 1),)),
        }


def test_moves_go_by_objective_and_within_an_objective_by_word(document, tmp_path):
    label = {"dtype": "string", "vocabulary": ["a", "b", "c"]}
    document["labels"]["kind"] = label
    document["objectives"]["kind"] = {"head": "multi_class", "num_classes": 3}
    old = ek.parse_spec(document, directory=tmp_path)
    label["vocabulary"] = ["c", "a", "b"]
    document["labels"]["more"] = {"dtype": "int64"}
    document["objectives"] = {"more": {"head": "binary"}, **document["objectives"]}
    new = ek.parse_spec(document, directory=tmp_path)

    def move(before, now):
        return place_move(before, now, old, new).tolist()

    click, kind, more = ("logits:click", 1), ("logits:kind", 3), ("logits:more", 1)
    assert move((click, kind), (more, kind, click)) == [-1, 3, 1, 2, 0]
    units = (("units:kind", 3), ("units:click", 1))
    assert move(units, units[::-1]) == [3, 0, 1, 2]
    assert move((click,), (more,)) == [-1]
    with pytest.raises(MeaningError, match="it makes some of the logits:kind, which changed"):
        move((("logits:kind", 2),), (("logits:kind", 2),))
    with pytest.raises(MeaningError) as error:
        move((("units:kind", 3),), (("units:kind", 3), ("units:more", 3)))
    assert str(error.value) == (
        "it has units of the objectives kind, more, but in the source of kind"
    )
    # A vector has no words, even if it has as many numbers as the column has words.
    document["columns"]["city"]["list"] = ["oslo", "rome"]
    document["columns"]["city_emb"] = {"embedding": "city", "dimension": 3}
    document["groups"]["deep"].append("city_emb")
    before = ek.parse_spec(document, directory=tmp_path)
    document["columns"]["city"]["list"] = ["rome", "oslo"]
    now = ek.parse_spec(document, directory=tmp_path)
    assert place_move((("city_emb", 3),), (("city_emb", 3),), before, now) is None
    assert place_move((("city_hot", 3),), (("city_hot", 3),), before, now).tolist() == [1, 0, 2]
