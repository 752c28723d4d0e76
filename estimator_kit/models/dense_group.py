"""The base of models that read one dense group, named by their parameter `group`."""

from __future__ import annotations

from estimator_kit.model.group_checks import check_dense_group
from estimator_kit.model.model_fn import ModelFn


class DenseGroupModel(ModelFn):
    """A model over one dense group. Its `Params` need a field `group`."""

    def check_spec(self) -> None:
        check_dense_group(self.spec, self.params.group)

    def groups(self) -> tuple[str, ...]:
        return (self.params.group,)
