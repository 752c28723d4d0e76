"""The public names of `import estimator_kit as ek`: this list changes only on purpose."""

from __future__ import annotations

import inspect

import pytest

import estimator_kit as ek
from estimator_kit import client

PUBLIC = """
CheckpointError ConfigError DataError ExperimentConfig FeatureSpec KerasModelFn LossError ModelFn
ModelParams NothingToDo RunResult SpecError StepScores Stopped Tracker UnsupportedTensorFlowError
batch_norm decode_features dense_layer dnn_logits eval_input_fn feature_columns hidden_layers
layer_norm load_spec make_optimizer make_parse_example_spec make_parse_sequence_example_spec
minimize parameter parse_spec predict_input_fn run serving_input_receiver_fn train_input_fn
write_examples write_sequence_examples
""".split()

# The names of `estimator_kit.client`, which needs no TensorFlow.
CLIENT = """
Classes GrpcClient Metadata RestClient RowError Rows ServingError Signature TensorForm
""".split()


def test_the_list_of_the_client_is_this_one():
    assert client.__all__ == sorted(CLIENT)
    assert all(inspect.getdoc(getattr(client, name)) for name in CLIENT)


def test_the_list_is_this_one():
    assert ek.__all__ == sorted(PUBLIC) == dir(ek)


@pytest.mark.parametrize("name", PUBLIC)
def test_each_is_there_and_documented(name):
    value = getattr(ek, name)
    assert inspect.getdoc(value)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'Model'"):
        _ = ek.Model
