"""The base of models that score a target item against a history of steps.

A subclass turns the history into one vector in `history`. A DNN then reads the deep group, the
target and this vector.

The model pairs the columns of the target group with the columns of the steps group, in the order of
the spec. The two columns of a pair must have the same width. Usually they are embeddings that share
a table.
"""

from __future__ import annotations

import abc

import tensorflow as tf

from estimator_kit.errors import ConfigError
from estimator_kit.model import group_checks, input_layer
from estimator_kit.model.model_fn import Logits, ModelFn
from estimator_kit.model.model_params import Group, OptionalGroup
from estimator_kit.models.dnn_params import DNNParams, tower_logits
from input_pipelines.transform.transforms import Features


class TargetParams(DNNParams):
    """Attributes:
    steps_group: the group of sequence columns with the history.
    target_group: the group with the target: one column for each column of the history, in the same
      order.
    deep_group: the group of other columns that the DNN reads. None reads no others. A column that
      is also in the target group has one table.
    """

    steps_group: Group = "steps"
    target_group: Group = "target"
    deep_group: OptionalGroup = "deep"


class TargetModel(ModelFn):
    """A model of a target and a history. Override `history`."""

    Params = TargetParams

    @abc.abstractmethod
    def history(
        self, steps: tf.Tensor, lengths: tf.Tensor, target: tf.Tensor, mode: str
    ) -> tf.Tensor:
        """float32 [rows, n] from steps [rows, 1 or more, width], their number [rows], and target
        [rows, width]."""

    def check_spec(self) -> None:
        p, spec = self.params, self.spec
        group_checks.check_sequence_group(spec, p.steps_group)
        group_checks.check_dense_group(spec, p.target_group)
        if p.deep_group is not None:
            group_checks.check_dense_group(spec, p.deep_group)
            group_checks.check_same_scope(spec, (p.target_group, p.deep_group))
        steps, target = spec.groups[p.steps_group], spec.groups[p.target_group]
        if len(steps) != len(target):
            raise ConfigError(
                f"group {p.target_group!r} has {len(target)} columns, but group {p.steps_group!r} "
                f"has {len(steps)}. This model pairs them in order. List equally many in both."
            )
        for step, item in zip(steps, target):
            widths = [input_layer.width_of(spec, name) for name in (step, item)]
            if widths[0] != widths[1]:
                raise ConfigError(
                    f"group {p.target_group!r}: column {item!r} has the width {widths[1]}, but "
                    f"this model pairs it with {step!r} of group {p.steps_group!r}, which has the "
                    f"width {widths[0]}. Make the widths equal, or list both groups in the same "
                    "order."
                )

    def groups(self) -> tuple[str, ...]:
        p = self.params
        found = (p.steps_group, p.target_group, p.deep_group)
        return tuple(group for group in found if group is not None)

    def logits(self, features: Features, mode: str) -> Logits:
        p, groups = self.params, self.spec.groups
        with tf.compat.v1.variable_scope("steps"):
            columns, lengths = input_layer.sequence_columns(self.spec, p.steps_group, features)
            steps = tf.concat([columns[name] for name in groups[p.steps_group]], axis=2)
            steps = input_layer.at_least_one_step(steps)
        with tf.compat.v1.variable_scope("dnn"):
            names = [*groups[p.target_group], *(groups[p.deep_group] if p.deep_group else ())]
            dense = input_layer.dense_columns(self.spec, names, features)
            target = tf.concat([dense[name] for name in groups[p.target_group]], axis=1)
            parts = [target, self.history(steps, lengths, target, mode)]
            if p.deep_group is not None:
                parts.insert(0, input_layer.side_by_side(self.spec, p.deep_group, dense))
            return tower_logits(tf.concat(parts, 1), p, mode, self.logits_dimension)
