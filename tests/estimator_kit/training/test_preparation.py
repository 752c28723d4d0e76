"""What a run says of a model before it begins."""

from __future__ import annotations

import types

import feature_specs
from estimator_kit.training.preparation import make_model
from tests.estimator_kit.model.test_model_fn import Constant


class Misspelt(Constant):
    def metric(self, labels, predictions, weights, features):
        return {}

    def _logits(self, features):
        return features


def test_a_method_with_nearly_the_name_of_another_gets_a_warning(document, caplog):
    config = types.SimpleNamespace(model=f"{__name__}:Misspelt", model_params={})
    with caplog.at_level("WARNING", "estimator_kit"):
        make_model(config, feature_specs.parse(document))
    line = Misspelt.metric.__code__.co_firstlineno
    expected = f"{__file__}:{line}: Misspelt.metric: the kit does not call this method. Did you"
    (found,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert found == f"{expected} mean 'metrics'?"
