"""The base of models that read one dense group, which their parameter `group` names."""

from __future__ import annotations

from estimator_kit.model.group_checks import check_dense_group
from estimator_kit.model.model_fn import ModelFn


class DenseGroupModel(ModelFn):
    """Its `Params` have a field `group`."""

    def check_spec(self) -> None:
        check_dense_group(self.spec, self.params.group)

    def groups(self) -> tuple[str, ...]:
        return (self.params.group,)
