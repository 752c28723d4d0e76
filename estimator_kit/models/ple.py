"""The built-in models `cgc` and `ple`: shared experts, and experts of single objectives.

Tang et al., Progressive Layered Extraction (PLE): A Novel Multi-Task Learning Model for
Personalized Recommendations, RecSys 2020. At each level, the gate of an objective k mixes its own
experts with the shared experts. Except at the last level, the shared part mixes all experts:

    x_k' = sum_e softmax(G_k x_k)_e f_e,    over k's experts of x_k and the shared experts of x_s
    x_s' = sum_e softmax(G_s x_s)_e f_e,    over all experts

`cgc` (customized gate control) has one level, and `ple` has several.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from estimator_kit.model.places.input_places import owned
from estimator_kit.models.dnn_params import HiddenUnits, PositiveInt, tower
from estimator_kit.models.multi_task import MultiTaskModel, MultiTaskParams, gated

# The name of the shared part. Names of objectives start with a letter or digit.
_SHARED = "_shared"


class CGCModel(MultiTaskModel):
    """One level of shared and own experts, and a gate and a tower per objective."""

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
        parts = dict.fromkeys([*self.objectives, _SHARED], inputs)
        for i in range(levels):
            with tf.compat.v1.variable_scope(f"level_{i}"):
                parts = self._level(parts, mode, last=i == levels - 1)
        return {name: parts[name] for name in self.objectives}

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
        for name in self.objectives:
            with owned(name):
                both = experts[name] + experts[_SHARED]
                mixed[name] = gated(both, parts[name], f"gate{_suffix(name)}")
        if not last:
            every = [expert for found in experts.values() for expert in found]
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
