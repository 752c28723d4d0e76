"""Summaries for TensorBoard, and what a training writes once: hyperparameters, spec and charts.

    writer.add_summary(summaries.of([summaries.scalar("auc/click", 0.79)]), step)
    values = summaries.values_of_a_start(config, spec, model)     # for the events of the training

TensorBoard finds the page of a value by the name of its plugin, which each value carries.

The page HParams has a row for each run below `--logdir`. Its columns are the hyperparameters and
the metrics of the last evaluation. The page Custom Scalars starts with the metric that ranks rows
or measures errors, one chart for each metric with a line for each objective.

The hyperparameters go where the metrics are, to the events of the evaluations: TensorBoard finds
no metric in a folder below if `--logdir` is the model directory itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import yaml

from estimator_kit.config.areas import AllSettings
from estimator_kit.config.modes import Train, settings_of
from estimator_kit.model.model_fn import ModelFn
from estimator_kit.observing import curves
from estimator_kit.observing.tensorboard import plugin_data
from feature_specs.spec import FeatureSpec

Summary = tf.compat.v1.Summary
Value = Any  # Summary.Value

# TensorBoard shows the thresholds k / (THRESHOLDS - 1). Ads are often clicked once in hundreds of
# rows, so that all thresholds of interest are below 0.05.
THRESHOLDS = 1001


def of(values: Iterable[Value]) -> Any:
    """The Summary with these values."""
    return Summary(value=list(values))


def scalar(tag: str, value: float) -> Value:
    return Summary.Value(tag=tag, simple_value=value)


def text(tag: str, markdown: str) -> Value:
    """A text in Markdown, for the page Text."""
    return _value(tag, "text", np.array([markdown.encode()], object))


def pr_curve(tag: str, table: np.ndarray) -> Value:
    """Precision and recall at 1,001 thresholds, for the page PR Curves.

    Args:
      tag: its name.
      table: float64 [3, bins], the logits and the weights of their positives and negatives; see
        `objectives.score_bins`.
    """
    data = curves.precision_recall(table, np.linspace(0, 1, THRESHOLDS))
    return _value(
        tag, "pr_curves", data.astype(np.float32), plugin_data.pr_curve(THRESHOLDS), name=tag
    )


def layout(categories: Mapping[str, Any]) -> Value:
    """The charts of the page Custom Scalars; see `plugin_data.layout`."""
    content = np.array(plugin_data.layout(categories), object)
    return _value("custom_scalars__config__", "custom_scalars", content)


def hparams(kind: str, content: bytes) -> Value:
    """A message of the page HParams: `experiment`, `session_start_info` or `session_end_info`."""
    return _value(f"_hparams_/{kind}", "hparams", np.zeros(0, np.float32), content)


def _value(
    tag: str, plugin: str, tensor: np.ndarray, content: bytes = b"", name: str = ""
) -> Value:
    plugin_entry = tf.compat.v1.SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    metadata = tf.compat.v1.SummaryMetadata(plugin_data=plugin_entry, display_name=name)
    return Summary.Value(tag=tag, metadata=metadata, tensor=tf.make_tensor_proto(tensor))


# Flags that always have a column in HParams. Others have one if they are not at their default.
SHOWN = (
    "model", "batch_size", "epochs", "max_steps", "seed", "shuffle", "keep_negatives", "strategy",
    "warm_start_from",
)  # fmt: skip
_NEVER = ("mode", "model_dir", "model_params")

# The folder of the evaluations of a training, which tf.estimator chooses.
EVALUATIONS = "eval"
_FIRST, _LAST = ".first", ".last"
_TRAINING = ("learning_rate", "gradient_norm", "examples_per_second")


def values_of_a_start(command: Train, spec: FeatureSpec, model: ModelFn) -> list[Any]:
    """Writes the hyperparameters, and returns the values for the events of the training."""
    shown = [layout(charts(spec)), text("spec", _indented(spec))]
    if command.program.mode == "train":
        return [*hyperparameter_values(command.settings, spec, model), *shown]
    folder = os.path.join(command.run.model_dir, EVALUATIONS)
    # Once in a run: a file of a restart would hide what an evaluator still adds to an older one.
    if not tf.io.gfile.glob(os.path.join(folder, f"events*{_FIRST}")):
        write_file(folder, hyperparameter_values(command.settings, spec, model), 0, first=True)
    return shown


def hyperparameter_values(config: AllSettings, spec: FeatureSpec, model: ModelFn) -> list[Any]:
    """The summary values for the page HParams."""
    parameters = hyperparameters(config, model)
    usual = type(config).model_fields
    columns = {
        name: value
        for name, value in parameters.items()
        if name in SHOWN or name not in usual or value != plugin_data.plain(usual[name].default)
    }
    metrics = [*main_metrics(spec), "loss"]
    return [
        hparams("experiment", plugin_data.experiment(columns, metrics)),
        hparams("session_start_info", plugin_data.session_start(parameters, seconds=time.time())),
    ]


def value_of_an_end() -> Any:
    """The summary value that says that the training succeeded."""
    return hparams("session_end_info", plugin_data.session_end(seconds=time.time()))


def hyperparameters(config: AllSettings, model: ModelFn) -> dict[str, Any]:
    """Every flag that the mode reads and parameter of the model that has a value, by name."""
    read = settings_of(config.mode).difference(_NEVER)
    values = {name: getattr(config, name) for name in sorted(read)}
    values.update(
        (f"model_params/{name}", value) for name, value in model.params.model_dump().items()
    )
    return {n: plugin_data.plain(v) for n, v in values.items() if v is not None and v != ()}


def charts(spec: FeatureSpec) -> dict[str, dict[str, Sequence[str]]]:
    """The charts by category, with regular expressions of their tags."""
    objectives = list(spec.objectives)
    evaluation: dict[str, list[str]] = {}
    for tag in main_metrics(spec):
        evaluation.setdefault(tag.partition("/")[0], []).append(f"^{tag}$")
    evaluation["loss"] = [f"^loss/{name}$" for name in objectives]
    training: dict[str, Sequence[str]] = {name: [f"^{name}$"] for name in _TRAINING}
    for name in objectives:
        training[f"mean prediction and label: {name}"] = [
            f"^prediction_mean/{name}$",
            f"^label_mean/{name}$",
        ]
    return {"Evaluation": dict(evaluation), "Training": training}


def main_metrics(spec: FeatureSpec) -> list[str]:
    """The tags of the most important metrics, such as `auc/click`, each metric in turn."""
    pairs = [
        (place, f"{choice.label}/{name}")
        for name, entry in spec.objectives.items()
        for place, choice in enumerate(entry.main)
        if choice.kind in entry.always or choice in entry.metric_choices()
    ]
    return [tag for _, tag in sorted(pairs, key=lambda pair: pair[0])]


def _indented(spec: FeatureSpec) -> str:
    """The spec as a block of code in Markdown."""
    document = yaml.safe_dump(spec.to_dict(), sort_keys=False, allow_unicode=True)
    return "".join(f"    {line}\n" for line in document.splitlines())


def write_file(folder: str, values: Sequence[Any], step: int, *, first: bool) -> None:
    """Writes a separate event file.

    TensorBoard reads the files of a folder in the order of their names, and goes back to none. So
    the time in the name is one second before or after the time of TensorFlow's files.

    Args:
      folder: a folder with events.
      values: the values.
      step: their global step.
      first: whether TensorFlow writes its file later; else it has written all.
    """
    now = time.time()
    second, suffix = (int(now) - 1, _FIRST) if first else (int(now) + 1, _LAST)
    tf.io.gfile.makedirs(folder)
    with tf.io.TFRecordWriter(
        os.path.join(folder, f"events.out.tfevents.{second:010d}{suffix}")
    ) as file:
        for event in (
            tf.compat.v1.Event(wall_time=now, file_version="brain.Event:2"),
            tf.compat.v1.Event(wall_time=now, step=step, summary=of(values)),
        ):
            file.write(event.SerializeToString())
