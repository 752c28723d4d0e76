"""tf.contrib.slim: the networks and the old import paths that public programs use."""

import importlib

import pytest
import tensorflow.compat.v1 as tf

from estimator_kit.compat.contrib import layers, slim

pytestmark = pytest.mark.filterwarnings("ignore:.*layer.apply. is deprecated:UserWarning")


def test_arg_scope_sets_arguments_of_layers(graph):
    with slim.arg_scope([slim.conv2d, slim.fully_connected], activation_fn=None) as scope:
        out = slim.conv2d(tf.zeros([1, 4, 4, 3]), 2, 3, scope="c")
    assert out.op.type == "BiasAdd"
    with slim.arg_scope(scope):
        assert layers.fully_connected(tf.zeros([1, 4]), 2).op.type == "BiasAdd"


def test_resnet_has_the_variables_of_1_15(graph):
    """Recorded from TensorFlow 1.15, with one block of two small units."""
    resnet = slim.nets.resnet_v1
    with slim.arg_scope(resnet.resnet_arg_scope()):
        block = resnet.resnet_v1_block("block1", base_depth=2, num_units=2, stride=2)
        out, ends = resnet.resnet_v1(
            tf.zeros([1, 32, 32, 3]), [block], 10, is_training=False, scope="r"
        )
    assert out.shape == [1, 1, 1, 10]
    assert "r/block1/unit_2/bottleneck_v1/conv3" in ends
    names = [variable.op.name for variable in slim.get_model_variables()]
    assert len(names) == 42
    assert names[:6] == [
        "r/conv1/weights",
        "r/conv1/BatchNorm/gamma",
        "r/conv1/BatchNorm/beta",
        "r/conv1/BatchNorm/moving_mean",
        "r/conv1/BatchNorm/moving_variance",
        "r/block1/unit_1/bottleneck_v1/shortcut/weights",
    ]
    assert names[-2:] == ["r/logits/weights", "r/logits/biases"]
    assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 9


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("slim", "nets"),
        ("slim.nets", "inception"),
        ("slim.nets.resnet_v2", "resnet_v2_152"),
        ("slim.python.slim.nets", "vgg"),
        ("slim.python.slim.nets.inception_v3", "inception_v3_arg_scope"),
        ("slim.python.slim.data", "dataset"),
        ("slim.python.slim.data.tfexample_decoder", "TFExampleDecoder"),
        ("framework.python.ops", "arg_scope"),
        ("framework.python.ops", "variables"),
        ("framework.python.ops.variables", "get_or_create_global_step"),
        ("layers.python.layers", "initializers"),
        ("layers.python.layers.utils", "convert_collection_to_dict"),
        ("losses", "metric_learning"),
        ("losses.metric_learning", "triplet_semihard_loss"),
        ("tensorboard.plugins", "projector"),
    ],
)
def test_an_old_path_has_its_names(tf_contrib, path, name):
    module = importlib.import_module(f"{tf_contrib.__name__}.{path}")
    assert hasattr(module, name) or importlib.import_module(f"{module.__name__}.{name}")


def test_importing_a_module_does_not_hide_the_function_of_its_name(tf_contrib):
    ops = importlib.import_module(f"{tf_contrib.__name__}.framework.python.ops")
    module = importlib.import_module(f"{ops.__name__}.arg_scope")
    assert module.add_arg_scope is slim.add_arg_scope
    assert ops.arg_scope is slim.arg_scope
