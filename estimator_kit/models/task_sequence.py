"""The base of models whose objectives are steps one after the other: shown, click, purchase.

Every row is learned from by every task: the label of a later task is 1 only where that of the one
before is 1, so that `purchase` means clicked and purchased. A label with `weight: click`, learned
from clicked rows alone, is another thing, and refused: the point of these models is to do without
that selection. Metrics of a later task are therefore over all rows, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model.input_layer import DNN_SCOPE
from estimator_kit.models.dense_group import DenseGroupModel
from estimator_kit.models.dnn_params import DNNParams, HiddenUnits
from feature_specs.errors import did_you_mean
from feature_specs.heads.objectives import Binary
from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks


class TaskSequenceParams(DNNParams):
    """Attributes:
    group: the group of columns that all tasks read, with one table a column for all of them.
    tasks: the objectives from the first step to the last; None for the order of the spec.
    hidden_units: of each task's DNN.
    """

    group: str = "deep"
    tasks: Optional[tuple[str, ...]] = None
    hidden_units: HiddenUnits = (128, 64)


class TaskSequenceModel(DenseGroupModel):
    """Checks the objectives of a subclass and the labels of each batch.

    Attributes:
      tasks: the objectives in the order of the steps.
    """

    Params = TaskSequenceParams

    def check_spec(self) -> None:
        super().check_spec()
        self.tasks = ordered_tasks(self.spec, self.params.tasks, type(self).__name__)

    def shared_prefix(self) -> str:
        return f"dnn/{DNN_SCOPE}/"

    def checked_labels(
        self, labels: Mapping[str, tf.Tensor], weights: Mapping[str, tf.Tensor]
    ) -> Mapping[str, tf.Tensor]:
        """Stops at a row with a later step and without the one before, unless it is masked."""
        asserts = []
        for before, after in zip(self.tasks, self.tasks[1:]):
            first, second = (self.objectives[name].label_name for name in (before, after))
            there = (weights[before] > 0) & (weights[after] > 0)
            first_value = tf.cast(labels[first], tf.float32)
            wrong = there & (tf.cast(labels[second], tf.float32) > first_value)
            message = (
                f"{checks.PREFIX}label {second!r} is above label {first!r}, and in a sequence of "
                f"tasks {after} needs {before} in the same record; correct the data or the order "
                "of tasks"
            )
            asserts.append(tf.debugging.Assert(~tf.reduce_any(wrong), [message]))
        with tf.control_dependencies(asserts):
            return {name: tf.identity(value) for name, value in labels.items()}


def ordered_tasks(
    spec: FeatureSpec, tasks: Optional[tuple[str, ...]], model: str
) -> tuple[str, ...]:
    """The objectives in the order of the steps.

    Args:
      tasks: the model's parameter; None for the order of the spec.
      model: a name, for messages.

    Raises:
      ConfigError: there is one objective alone, one has no binary head or a label that is weighed
        by that of another, or `tasks` is no order of all of them.
    """
    names = tuple(spec.objectives)
    if len(names) < 2:
        raise ConfigError(
            f"{model} learns a sequence of objectives, such as click and purchase, and the spec "
            f"has {names[0]!r} alone; add the others, or choose another model, such as dnn"
        )
    for name in tasks or ():
        if name not in names:
            raise ConfigError(f"tasks: no objective {name!r}{did_you_mean(name, names)}")
    if tasks is not None and sorted(tasks) != sorted(names):
        raise ConfigError(
            f"tasks: got {', '.join(tasks)}, expected each objective of the spec once, from the "
            f"first step to the last: {', '.join(names)}"
        )
    learned = {spec.label_of(name) for name in names}
    for name, objective in spec.objectives.items():
        if not isinstance(objective, Binary):
            raise ConfigError(
                f"objective {name!r} has the head {objective.head}; {model} takes binary ones alone"
            )
        label = spec.label_of(name)
        weight = spec.labels[label].weight
        if weight in learned:
            raise ConfigError(
                f"objective {name!r}: the label {label!r} has weight: {weight}, and {model} learns "
                f"every task from all rows; remove that weight ({label!r} must be 0 where the task "
                "before is 0)"
            )
    return tasks if tasks is not None else names
