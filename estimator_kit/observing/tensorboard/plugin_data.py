"""The messages of TensorBoard's plugins, as bytes.

TensorFlow has the messages of event files. The messages of the plugins pr_curves, hparams and
custom_scalars are in the package tensorboard, which TensorFlow 2.21 does not install. They are
small, so this module writes them with `record_files.framing`. A test compares the bytes with
TensorBoard's own classes. Nothing here reads or writes a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Union

from input_pipelines.record_files.framing import Field, message

# In `api.proto` of the plugin hparams.
_STRING, _BOOL, _NUMBER = 1, 2, 3
_VALIDATION = 2
_SUCCESS = 1


def pr_curve(thresholds: int) -> bytes:
    """`PrCurvePluginData` of a curve with this number of thresholds."""
    return message([(2, thresholds)])


def layout(categories: Mapping[str, Mapping[str, Sequence[str]]]) -> bytes:
    """`Layout` of custom_scalars, from `{category: {chart: [regular expression of tags]}}`."""
    return message(
        (2, message([(1, category), *((2, _chart(title, t)) for title, t in charts.items())]))
        for category, charts in categories.items()
    )


def experiment(columns: Mapping[str, Any], metrics: Sequence[str]) -> bytes:
    """`HParamsPluginData` with the columns of the page HParams.

    Args:
      columns: hyperparameters by name, with an example of their values.
      metrics: tags of scalars in the same folder.
    """
    infos: list[Field] = [
        (4, message([(1, name), (4, _type(value))])) for name, value in columns.items()
    ]
    infos += [
        (5, message([(1, message([(2, tag)])), (3, tag), (5, _VALIDATION)])) for tag in metrics
    ]
    return message([(2, message(infos))])


def session_start(hparams: Mapping[str, Any], *, seconds: float) -> bytes:
    """`HParamsPluginData` with the hyperparameters of a run that started at this time."""
    entries: list[Field] = [
        (1, message([(1, name), (2, _value(value))])) for name, value in hparams.items()
    ]
    return message([(3, message([*entries, (5, seconds)]))])


def session_end(*, seconds: float) -> bytes:
    """`HParamsPluginData` that says that a run succeeded."""
    return message([(4, message([(1, _SUCCESS), (2, seconds)]))])


def plain(value: Any) -> Union[bool, int, float, str]:
    """A hyperparameter as a number, a truth value or text."""
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return json.dumps(value, sort_keys=True, default=str)


def _chart(title: str, tags: Sequence[str]) -> bytes:
    return message([(1, title), (2, message((1, tag) for tag in tags))])


def _type(value: Any) -> int:
    if isinstance(value, bool):
        return _BOOL
    return _NUMBER if isinstance(value, (int, float)) else _STRING


def _value(value: Any) -> bytes:
    """`google.protobuf.Value`."""
    if isinstance(value, bool):
        return message([(4, value)])
    if isinstance(value, (int, float)):
        return message([(2, float(value))])
    return message([(3, value)])
