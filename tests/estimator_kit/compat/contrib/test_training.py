"""HParams has the rules of TensorFlow 1.15: values and errors here were recorded from it."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_kit.compat.contrib import training

v1 = tf.compat.v1


def hparams():
    return training.HParams(
        steps=1, rate=2.5, name="x", on=True, units=[1, 2, 3], words=["p", "q"], empty=None
    )


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("steps=2", "steps", 2),
        ("steps = 4 , rate=2", "steps", 4),
        ("steps=2,rate=1e-3", "rate", 0.001),
        ("rate=2", "rate", 2.0),
        ("name=hello world", "name", "hello world"),
        ("name=", "name", ""),
        ("name=a=b", "name", "a=b"),
        ("name='q'", "name", "'q'"),
        ("on=false", "on", False),
        ("on=0", "on", False),
        ("on=2", "on", True),
        ("units=[4,5]", "units", [4, 5]),
        ("units=[4 5]", "units", [4, 5]),
        ("units=[]", "units", []),
        ("words=[a,b]", "words", ["a", "b"]),
        ("steps=1,", "steps", 1),
    ],
)
def test_parses_values_of_the_type(text, name, value):
    parsed = hparams().parse(text).values()[name]
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps=2.5", "Could not parse hparam 'steps' of type 'int' with value '2.5' in steps=2.5"),
        ("on=yes", "Could not parse hparam 'on' of type 'bool' with value 'yes' in on=yes"),
        ("units=[a]", "Could not parse hparam 'units' of type 'int' with value 'a' in units=[a]"),
        ("units=4", "Must pass a list for multi-valued parameter: units."),
        ("units[1]=9", "Must pass a list for multi-valued parameter: units."),
        ("units[1]=[2]", "Assignment of a list to a list index."),
        ("steps=[1]", "Must not pass a list for single-valued parameter: steps"),
        ("zz=1", "Unknown hyperparameter type for zz"),
        ("rate", "Malformed hyperparameter value: rate"),
        ("steps=1,steps=2", "Multiple assignments to variable 'steps' in steps=1,steps=2"),
    ],
)  # fmt: skip
def test_refuses_other_text(text, message):
    with pytest.raises(ValueError) as raised:
        hparams().parse(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("name", "value", "changed"),
    [("rate", 3, 3.0), ("empty", "x", "x"), ("units", [7], [7]), ("on", False, False)],
)
def test_sets_a_value_of_the_type(name, value, changed):
    made = hparams().override_from_dict({name: value})
    assert (getattr(made, name), type(getattr(made, name))) == (changed, type(changed))


@pytest.mark.parametrize(
    ("name", "value"),
    [("steps", 2.0), ("steps", True), ("steps", "3"), ("steps", None), ("rate", "3"), ("name", 3),
     ("on", 1), ("units", [1.5])],
)  # fmt: skip
def test_refuses_a_value_of_another_type(name, value):
    with pytest.raises(ValueError, match=f"^Could not cast hparam '{name}' of type '<class '"):
        hparams().set_hparam(name, value)


def test_names_are_added_and_deleted():
    made = hparams()
    with pytest.raises(ValueError, match="Hyperparameter name is reserved: values"):
        made.add_hparam("values", 1)
    with pytest.raises(KeyError, match="zz"):
        made.set_hparam("zz", 1)
    made.add_hparam("zz", (1, 2))
    made.del_hparam("steps")
    assert ("zz" in made, "steps" in made, made.get("steps", 7), made.get("zz")) == (
        True, False, 7, (1, 2),
    )  # fmt: skip


def test_gets_only_with_a_default_of_the_type():
    with pytest.raises(ValueError) as raised:
        hparams().get("steps", "x")
    assert str(raised.value) == (
        "Hparam 'steps' of type '<class 'int'>' is incompatible with default=x. Could not cast "
        "hparam 'steps' of type '<class 'int'>' from value 'x'"
    )


def test_reads_and_writes_json():
    made = training.HParams(b=1, a=[1, 2])
    assert made.to_json(sort_keys=True) == '{"a": [1, 2], "b": 1}'
    assert made.parse_json('{"b": 3}').b == 3
    assert str(training.HParams(b=1, a="x")) == "b=1,a=x"
    assert repr(training.HParams(b=1, a="x")) == "HParams([('a', 'x'), ('b', 1)])"


def test_parse_values_has_a_dictionary_for_places_of_a_list():
    assert training.parse_values("a[1]=2,a[0]=1,b=x", {"a": int}, ignore_unknown=True) == {
        "a": {1: 2, 0: 1}
    }


def test_create_train_op_clips_gradients():
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.get_variable("x", initializer=[3.0, 4.0])
        step = training.create_train_op(
            v1.reduce_sum(x * x) / 2,
            v1.train.GradientDescentOptimizer(1.0),
            transform_grads_fn=training.clip_gradient_norms_fn(1.0),
        )
        session.run(v1.global_variables_initializer())
        session.run(step)
        # The gradient (3, 4) has the norm 5.
        np.testing.assert_allclose(session.run(x), [3 - 0.6, 4 - 0.8], rtol=1e-6)


def test_balances_variables_by_size():
    place = training.GreedyLoadBalancingStrategy(2, training.byte_size_load_fn)
    with tf.Graph().as_default():
        ops = [v1.get_variable(n, [size], use_resource=False).op for n, size in
               (("a", 10), ("b", 2), ("c", 2))]  # fmt: skip
        assert [place(op) for op in ops] == [0, 1, 1]
