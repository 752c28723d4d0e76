"""The section `retraining` of a spec: valid entries, and the messages about mistakes."""

from __future__ import annotations

import pytest

from feature_specs import SpecError
from feature_specs.parser import parser

pytestmark = pytest.mark.no_tensorflow


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"gate": {"conditions": [{"metric": "auc/clik", "min": 0.5}]}},
         "retraining.gate.conditions[0].metric: got 'auc/clik', expected a metric of the gate. Did "
         "you mean 'auc/click'?"),
        ({"gate": {"conditions": [{"metric": "auc/click"}]}},
         "retraining.gate.conditions[0]: has no bound. Set min, max or max_loss."),
        ({"gate": {"conditions": [{"metric": "auc/click", "min": 0.6, "max": 0.5}]}},
         "retraining.gate.conditions[0]: min must not be greater than max, got min 0.6 and max "
         "0.5. No model would pass."),
        ({"gate": {"conditions": [{"metric": "size_mib", "max_loss": 1}]}},
         "retraining.gate.conditions[0]: size_mib is a metric of a model, not of rows. Set only "
         "min or max, and remove max_loss and slice."),
        ({"gate": {"conditions": [{"metric": "auc/click", "min": 55}]}},
         "retraining.gate.conditions[0]: min: auc is always between 0 and 1, got 55. Write a "
         "percentage as a fraction: 0.55."),
        ({"gate": {"conditions": [{"metric": "auc/click", "max_loss": 500}]}},
         "retraining.gate.conditions[0]: max_loss: auc is always between 0 and 1, so the loss is "
         "at most 1, got 500. Correct the bound."),
        ({"gate": {"conditions": [{"metric": "auc/click", "max_loss": "5 percent"}]}},
         "retraining.gate.conditions[0].max_loss: got '5 percent', expected a finite number in the "
         "unit of the metric, such as 0.01, or a percentage of the live model's metric, such as "
         "5%"),
        ({"gate": {"conditions": [{"metric": "calibration/click", "max_loss": "5%"}]}},
         "retraining.gate.conditions[0]: max_loss: got 5%, expected a number, because the loss of "
         "calibration is a difference of abs(log(calibration)). Write 0.1 for about 10%."),
        ({"gate": {"conditions": [{"metric": "log_loss/click", "max": -0.5}]}},
         "retraining.gate.conditions[0]: max: log_loss is always at least 0, got -0.5. Correct "
         "the bound."),
        # A metric of another head: the nearest name, calibration/click, would not help.
        ({"gate": {"conditions": [{"metric": "accuracy/click", "min": 0.5}]}},
         "retraining.gate.conditions[0].metric: got 'accuracy/click', expected a metric that the "
         "gate has for the head binary. Use one of: auc/click, log_loss/click, "
         "calibration/click."),
        ({"gate": {"conditions": [{"metric": "ac/click", "min": 0.5}]}},
         "retraining.gate.conditions[0].metric: got 'ac/click', expected a metric that the "
         "gate has for the head binary. Did you mean 'auc'?"),
        ({"gate": {"conditions": [{"metric": "auc/click", "min": 0.5, "slice": "price"}]}},
         "retraining.gate.conditions[0].slice: feature 'price' must be a single string or integer "
         "per row"),
        ({"gate": {"bootstrap": {"group_by": "usr"}}},
         "retraining.gate.bootstrap.group_by: got 'usr', expected the name of a feature. Did you "
         "mean 'user'?"),
        ({"label_rate": {"click": {}}},
         "retraining.label_rate.click: has no bound. Set min or max."),
        ({"label_rate": {"clik": {"min": 0.1}}},
         "retraining.label_rate.clik: got 'clik', expected the name of a label. Did you mean "
         "'click'?"),
        ({"gat": {}}, "retraining.gat: unknown key. Did you mean 'gate'?"),
        ([], "retraining: got [], expected a mapping of "
         "label_rate, period_rows, drift, vocabularies, warm_start, warm_start_epochs, full_every, "
         "gate"),
    ],
)  # fmt: skip
def test_mistakes_are_named(document, section, message):
    with pytest.raises(SpecError) as error:
        parser.parse({**document, "retraining": section})
    assert str(error.value).splitlines()[1].strip() == f"<dict>: {message}"


def test_it_is_kept_and_read_again(document):
    section = {
        "label_rate": {"click": {"min": 0.01, "otherwise": "leave_out"}},
        "full_every": 7,
        "gate": {"conditions": [{"metric": "auc/click", "max_loss": 0.01, "slice": "city"}]},
    }
    spec = parser.parse({**document, "retraining": section})
    assert spec.to_dict()["retraining"] == section
    assert parser.parse(spec.to_dict()).retraining == spec.retraining
    assert "retraining" not in parser.parse(document).to_dict()
