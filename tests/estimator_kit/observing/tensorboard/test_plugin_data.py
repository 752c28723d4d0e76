"""Bytes of TensorBoard's messages: by hand, with protobuf, and with TensorBoard's own classes."""

from __future__ import annotations

import pytest
from google.protobuf import struct_pb2

from estimator_kit.observing.tensorboard import plugin_data

pytestmark = pytest.mark.no_tensorflow


@pytest.mark.parametrize("value", [True, False, 0, -3, 2.5, 2**60, "", "a" * 300])
def test_values_are_read_by_protobuf(value):
    number = not isinstance(value, (bool, str))
    kind = "number_value" if number else "bool_value" if isinstance(value, bool) else "string_value"
    read = struct_pb2.Value.FromString(plugin_data._value(value))
    assert read == struct_pb2.Value(**{kind: value})


@pytest.mark.parametrize(
    "value, expected",
    [
        (("a", "b"), "a,b"),
        ([64, 32], "[64, 32]"),
        ({"adam": {"beta": 0.9}}, '{"adam": {"beta": 0.9}}'),
        (0.5, 0.5),
        (True, True),
        (None, "null"),
    ],
)
def test_a_hyperparameter_is_a_number_a_truth_value_or_text(value, expected):
    assert plugin_data.plain(value) == expected
    assert type(plugin_data.plain(value)) is type(expected)


def test_tensorboard_reads_the_same():
    pytest.importorskip("tensorboard")
    from tensorboard.plugins.custom_scalar import layout_pb2
    from tensorboard.plugins.hparams import plugin_data_pb2
    from tensorboard.plugins.pr_curve import plugin_data_pb2 as pr_curve_pb2

    assert pr_curve_pb2.PrCurvePluginData.FromString(plugin_data.pr_curve(200)) == (
        pr_curve_pb2.PrCurvePluginData(num_thresholds=200)
    )
    layout = layout_pb2.Layout()
    category = layout.category.add(title="Evaluation")
    category.chart.add(title="auc").multiline.tag.extend(["^auc/a$", "^auc/b$"])
    category.chart.add(title="loss").multiline.tag.append("^loss/a$")
    made = {"Evaluation": {"auc": ["^auc/a$", "^auc/b$"], "loss": ["^loss/a$"]}}
    assert layout_pb2.Layout.FromString(plugin_data.layout(made)) == layout

    read = plugin_data_pb2.HParamsPluginData.FromString
    found = read(plugin_data.session_start({"rate": 0.5, "on": True, "m": "dnn"}, seconds=7.5))
    expected = plugin_data_pb2.HParamsPluginData()
    expected.session_start_info.start_time_secs = 7.5
    expected.session_start_info.hparams["rate"].number_value = 0.5
    expected.session_start_info.hparams["on"].bool_value = True
    expected.session_start_info.hparams["m"].string_value = "dnn"
    assert found == expected
    end = read(plugin_data.session_end(seconds=9.0)).session_end_info
    assert (end.status, end.end_time_secs) == (1, 9.0)  # STATUS_SUCCESS
    experiment = read(plugin_data.experiment({"rate": 0.5, "on": True}, ["auc/a"])).experiment
    assert [(info.name, info.type) for info in experiment.hparam_infos] == [("rate", 3), ("on", 2)]
    (metric,) = experiment.metric_infos
    assert (metric.name.group, metric.name.tag, metric.display_name) == ("", "auc/a", "auc/a")
