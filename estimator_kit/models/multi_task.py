"""Models with a part that all objectives share: `shared_bottom`, `mmoe`, `cgc` and `ple`."""

from __future__ import annotations

import abc
from collections.abc import Mapping

import tensorflow as tf

from estimator_kit.model.input_layer import DNN_SCOPE
from estimator_kit.model.model_fn import Logits
from estimator_kit.model.model_params import Group
from estimator_kit.model.places.input_places import owned
from estimator_kit.models.dnn import (
    DenseGroupModel,
    DNNParams,
    HiddenUnits,
    PositiveInt,
    tower,
    tower_logits,
)
from estimator_kit.models.layers import dense_layer
from input_pipelines.transform.transforms import Features


class MultiTaskParams(DNNParams):
    """Attributes:
    group: the group that the model reads.
    hidden_units: the number of units of each hidden layer of the shared part: the bottom, or each
      expert.
    tower_units: the number of units of each hidden layer of a tower. `[]` makes linear towers.
    """

    group: Group = "deep"
    hidden_units: tuple[PositiveInt, ...] = (128, 64)
    tower_units: tuple[PositiveInt, ...] = (32,)


class MultiTaskModel(DenseGroupModel):
    """A model with shared layers and towers. Override `shared`.

    A subclass returns the input of each tower in `shared`. The labels of an objective train its
    tower and the shared part, but never the tower of another objective.
    """

    Params = MultiTaskParams

    @abc.abstractmethod
    def shared(self, inputs: tf.Tensor, mode: str) -> Mapping[str, tf.Tensor]:
        """{objective: float32 [rows, n]} from the columns of the group, float32 [rows, width]."""

    def logits(self, features: Features, mode: str) -> Logits:
        with tf.compat.v1.variable_scope("dnn"):
            inputs = self.dense_input(features, self.params.group)
            shared = self.shared(inputs, mode)
        logits = {}
        for name, head in self.heads.items():
            with owned(name), tf.compat.v1.variable_scope(f"tower_{name}"):
                logits[name] = tower_logits(
                    shared[name],
                    self.params,
                    mode,
                    head.logits_dimension,
                    self.params.tower_units,
                )
        return logits


def gated(experts: list[tf.Tensor], inputs: tf.Tensor, name: str) -> tf.Tensor:
    """sum_e softmax(inputs @ kernel)_e experts_e: float32 [rows, units].

    Args:
      experts: the outputs of the experts, float32 [rows, units] each.
      inputs: the input of the gate, float32 [rows, n].
      name: the scope of the kernel of the gate.
    """
    weights = tf.nn.softmax(dense_layer(inputs, len(experts), name, use_bias=False))
    return tf.einsum("ne,neu->nu", weights, tf.stack(experts, axis=1))


class SharedBottomModel(MultiTaskModel):
    """One DNN with `hidden_units` for all objectives, and a tower with `tower_units` for each.

    Caruana, Multitask Learning, Machine Learning 28, 1997. This is the simplest multi-task model.
    All objectives share the output of one DNN:

        logit_k = tower_k(bottom(x))
    """

    def shared_prefix(self) -> str:
        layers = len(self.params.hidden_units)
        return f"dnn/bottom/hiddenlayer_{layers - 1}/" if layers else f"dnn/{DNN_SCOPE}/"

    def shared(self, inputs: tf.Tensor, mode: str) -> Mapping[str, tf.Tensor]:
        with tf.compat.v1.variable_scope("bottom"):
            bottom = tower(inputs, self.params, mode)
        return dict.fromkeys(self.heads, bottom)


class MMoEModel(MultiTaskModel):
    """Experts that all objectives share, and a gate and a tower per objective.

    Ma et al., Modeling Task Relationships in Multi-task Learning with Multi-gate
    Mixture-of-Experts, KDD 2018. f_e are the experts, and g_k is the gate of the objective k:

        y_k = tower_k(sum_e g_k(x)_e f_e(x)),    g_k(x) = softmax(G_k x)
    """

    class Params(MultiTaskParams):
        """Attributes:
        hidden_units: the number of units of each hidden layer of an expert.
        experts: the number of experts. The paper uses 8.
        """

        hidden_units: HiddenUnits = (128, 64)
        experts: PositiveInt = 8

    def shared_prefix(self) -> str:
        return rf"dnn/expert_\d+/hiddenlayer_{len(self.params.hidden_units) - 1}/"

    def shared(self, inputs: tf.Tensor, mode: str) -> Mapping[str, tf.Tensor]:
        experts = []
        for i in range(self.params.experts):
            with tf.compat.v1.variable_scope(f"expert_{i}"):
                experts.append(tower(inputs, self.params, mode))
        mixed = {}
        for name in self.heads:
            with owned(name):
                mixed[name] = gated(experts, inputs, f"gate_{name}")
        return mixed


# The name of the shared part. Names of objectives start with a letter or digit.
_SHARED = "_shared"


class CGCModel(MultiTaskModel):
    """One level of shared and own experts, and a gate and a tower per objective.

    Tang et al., Progressive Layered Extraction (PLE): A Novel Multi-Task Learning Model for
    Personalized Recommendations, RecSys 2020. At each level, the gate of an objective k mixes its
    own experts with the shared experts. Except at the last level, the shared part mixes all
    experts:

        x_k' = sum_e softmax(G_k x_k)_e f_e,  over k's experts of x_k and the shared experts of x_s
        x_s' = sum_e softmax(G_s x_s)_e f_e,  over all experts

    `cgc` (customized gate control) has one level, and `ple` has several.
    """

    class Params(MultiTaskParams):
        """Attributes:
        hidden_units: the number of units of each hidden layer of an expert.
        shared_experts: the number of experts that all objectives share.
        own_experts: the number of experts of each objective.
        """

        hidden_units: HiddenUnits = (128, 64)
        shared_experts: PositiveInt = 2
        own_experts: PositiveInt = 2

    def shared_prefix(self) -> str:
        level, layer = self._levels() - 1, len(self.params.hidden_units) - 1
        return rf"dnn/level_{level}/expert{_SHARED}_\d+/hiddenlayer_{layer}/"

    def _levels(self) -> int:
        return getattr(self.params, "levels", 1)

    def shared(self, inputs: tf.Tensor, mode: str) -> Mapping[str, tf.Tensor]:
        levels = self._levels()
        parts = dict.fromkeys([*self.heads, _SHARED], inputs)
        for i in range(levels):
            with tf.compat.v1.variable_scope(f"level_{i}"):
                parts = self._level(parts, mode, last=i == levels - 1)
        return {name: parts[name] for name in self.heads}

    def _level(
        self, parts: Mapping[str, tf.Tensor], mode: str, *, last: bool
    ) -> dict[str, tf.Tensor]:
        experts: dict[str, list[tf.Tensor]] = {}
        for name, inputs in parts.items():
            is_shared = name == _SHARED
            count = self.params.shared_experts if is_shared else self.params.own_experts
            owners = () if is_shared else (name,)
            experts[name] = []
            for i in range(count):
                with owned(*owners), tf.compat.v1.variable_scope(f"expert{_suffix(name)}_{i}"):
                    experts[name].append(tower(inputs, self.params, mode))
        mixed = {}
        for name in self.heads:
            with owned(name):
                both = experts[name] + experts[_SHARED]
                mixed[name] = gated(both, parts[name], f"gate{_suffix(name)}")
        if not last:
            every = [expert for own in experts.values() for expert in own]
            mixed[_SHARED] = gated(every, parts[_SHARED], f"gate{_suffix(_SHARED)}")
        return mixed


def _suffix(name: str) -> str:
    return name if name == _SHARED else f"_of_{name}"


class PLEModel(CGCModel):
    """Several levels of experts and gates."""

    class Params(CGCModel.Params):
        """Attributes:
        levels: the number of levels of experts. Each level reads the level before it.
        """

        levels: PositiveInt = 2
