"""Models whose objectives follow each other, such as click and then purchase: `esmm`, `aitm`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Optional

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model.input_layer import DNN_SCOPE
from estimator_kit.model.model_fn import Logits
from estimator_kit.model.model_params import Group
from estimator_kit.model.places.input_places import owned
from estimator_kit.models.dnn import DenseGroupModel, DNNParams, HiddenUnits, tower_logits
from feature_specs.errors import did_you_mean
from feature_specs.heads import Binary
from feature_specs.spec import FeatureSpec
from input_pipelines.transform import checks
from input_pipelines.transform.transforms import Features


class TaskSequenceParams(DNNParams):
    """Attributes:
    group: the group that all tasks read. The tasks share the embedding tables.
    tasks: the objectives from the first to the last. The default is their order in the spec.
    hidden_units: the number of units of each hidden layer of the DNN of a task.
    """

    group: Group = "deep"
    tasks: Optional[tuple[str, ...]] = None
    hidden_units: HiddenUnits = (128, 64)


class TaskSequenceModel(DenseGroupModel):
    """Checks the objectives of a model and the labels of each batch.

    Attributes:
      tasks: the objectives from the first to the last.

    Every task learns from every row. The label of a later task may be 1 only if the label of the
    task before it is 1, so that `purchase` means "clicked and purchased". These models exist to
    avoid learning only from clicked rows. They therefore reject a label with `weight: click`. The
    metrics of a later task also use all rows.
    """

    Params = TaskSequenceParams

    def check_spec(self) -> None:
        super().check_spec()
        self.tasks = ordered_tasks(self.spec, self.params.tasks, type(self).__name__)

    def shared_prefix(self) -> str:
        return f"dnn/{DNN_SCOPE}/"

    @contextlib.contextmanager
    def tower_of(self, name: str) -> Iterator[None]:
        """The scope of a task. What it learns depends on the tasks before it."""
        before = self.tasks[: self.tasks.index(name)]
        with owned(*before, name), tf.compat.v1.variable_scope(f"tower_{name}"):
            yield

    def checked_labels(
        self, labels: Mapping[str, tf.Tensor], weights: Mapping[str, tf.Tensor]
    ) -> Mapping[str, tf.Tensor]:
        """Fails if a row has a later task without the task before it. Masked rows are ignored."""
        asserts = []
        for before, after in zip(self.tasks, self.tasks[1:]):
            first, second = (self.heads[name].label_name for name in (before, after))
            is_weighted = (weights[before] > 0) & (weights[after] > 0)
            first_value = tf.cast(labels[first], tf.float32)
            wrong = is_weighted & (tf.cast(labels[second], tf.float32) > first_value)
            message = (
                f"{checks.PREFIX}label {second!r} is greater than label {first!r}, but task "
                f"{after} needs {before} in the same record. Correct the data or the order of "
                "tasks."
            )
            asserts.append(tf.debugging.Assert(~tf.reduce_any(wrong), [message]))
        with tf.control_dependencies(asserts):
            return {name: tf.identity(value) for name, value in labels.items()}


def ordered_tasks(
    spec: FeatureSpec, tasks: Optional[tuple[str, ...]], model: str
) -> tuple[str, ...]:
    """The objectives from the first to the last.

    Args:
      spec: the feature spec.
      tasks: the parameter of the model. None means the order of the spec.
      model: the name of the model, for messages.

    Raises:
      ConfigError: the spec has only one objective, a head is not binary, the label of another
        objective is the weight of a label, or `tasks` does not list each objective once.
    """
    names = tuple(spec.objectives)
    if len(names) < 2:
        raise ConfigError(
            f"{model} learns a sequence of objectives, such as click and purchase, but the spec "
            f"has only {names[0]!r}. Add an objective, or use another model, such as dnn."
        )
    for name in tasks or ():
        if name not in names:
            raise ConfigError(f"tasks: unknown objective {name!r}{did_you_mean(name, names)}")
    if tasks is not None and sorted(tasks) != sorted(names):
        raise ConfigError(
            f"tasks: got {', '.join(tasks)}, expected each objective of the spec once, from the "
            f"first step to the last: {', '.join(names)}"
        )
    learned = {spec.label_of(name) for name in names}
    for name, objective in spec.objectives.items():
        if not isinstance(objective, Binary):
            raise ConfigError(
                f"objective {name!r} has the head {objective.head}, but {model} needs binary heads"
            )
        if objective.delayed:
            raise ConfigError(
                f"objective {name!r} has the loss delayed_feedback, but {model} needs one logit "
                "for each objective. Choose another loss, or another model, such as mmoe."
            )
        label = spec.label_of(name)
        weight = spec.labels[label].weight
        if weight in learned:
            raise ConfigError(
                f"objective {name!r}: the label {label!r} has weight: {weight}, but {model} learns "
                f"every task from all rows. Remove the weight. {label!r} must be 0 wherever the "
                "label of the task before it is 0."
            )
    return tasks if tasks is not None else names


def joint_logit(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """The logit of sigmoid(first) sigmoid(second): float32 in the shape of the arguments.

    The odds against the product are (1 + e^-a)(1 + e^-b) - 1 = e^-a + e^-b + e^-(a + b). Therefore

        logit = -log(e^-a + e^-b + e^-(a + b))

    No step rounds a probability to 0 or 1, and the gradients are from 0 to 1. Two logits of 0 have
    the probabilities 1/2 and 1/4, and the logit -log 3 = -1.0986.
    """
    return -tf.reduce_logsumexp(tf.stack([-first, -second, -(first + second)]), axis=0)


class ESMMModel(TaskSequenceModel):
    """One DNN per task. The logit of a later task is the logit of the product.

    Ma et al., Entire Space Multi-Task Model, SIGIR 2018. Each task has a DNN over the same
    embeddings. The first DNN predicts P(click), and the second DNN predicts P(purchase | click).
    The second learns through the product, from all rows instead of only from clicked rows:

        P(click and purchase) = P(click) P(purchase | click) = sigmoid(a) sigmoid(b)

    A third task multiplies by another factor, and so on. The head of the objective `purchase` gets
    the logit of the product. Its loss, metrics and predictions are therefore about rows that are
    clicked and purchased. The prediction `purchase_given_click` is P(purchase | click).
    """

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("dnn"):
            inputs = self.dense_input(features, self.params.group)
        logits: dict[str, tf.Tensor] = {}
        before = None
        for name in self.tasks:
            with self.tower_of(name):
                own = tower_logits(inputs, self.params, mode, 1)
            if before is None:
                logits[name] = own
            else:
                self.add_output(f"{name}_given_{before}", tf.sigmoid(own))
                logits[name] = joint_logit(logits[before], own)
            before = name
        return logits
