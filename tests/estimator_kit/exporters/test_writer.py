"""The graph of an export holds what answers need, and no initializers."""

from __future__ import annotations

import tensorflow as tf

import feature_specs
from estimator_kit.exporters.writer import make_graph
from estimator_kit.models import find_model
from tests.conftest import DOCUMENT


def test_variables_of_an_export_start_as_zeros_that_are_shared():
    spec = feature_specs.parse(DOCUMENT)
    model = find_model("wide_deep")(spec, {"hidden_units": [4, 4]})
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        made = make_graph(model, spec, None, "predict_examples")
        variables = tf.compat.v1.global_variables()
        session.run(tf.compat.v1.global_variables_initializer())
        values = session.run(variables)
    assert len(variables) > 8 and all(not value.any() for value in values)
    types = [op.type for op in graph.get_operations()]
    assert not [kind for kind in types if "Random" in kind or "Normal" in kind]
    assert types.count("Fill") < len(variables)
    assert made.signatures["serving_default"] == made.signatures["predict_examples"]
