"""The section `monitoring` of a spec: valid entries, and the messages about mistakes."""

from __future__ import annotations

import pytest

from feature_specs import SpecError
from feature_specs.parser import parser

pytestmark = pytest.mark.no_tensorflow

KEY = {"key": "user", "label_delay": "1d"}


def condition(**fields):
    return {**KEY, "conditions": [fields]}


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"key": "user"}, "monitoring: label_delay is missing. Set key and label_delay, or "
         "neither."),
        ({"label_delay": "1h"}, "monitoring: key is missing. Set key and label_delay, or neither."),
        ({"key": "usr", "label_delay": "1h"},
         "monitoring.key: got 'usr', expected the name of a feature. Did you mean 'user'?"),
        ({"key": "price", "label_delay": "1h"},
         "monitoring.key: feature 'price' must be a single string or integer per row"),
        ({**KEY, "label_delay": "1 day"},
         "monitoring.label_delay: expected minutes, hours or days such as 30m, 6h or 7d, got "
         "'1 day'"),
        ({**KEY, "no_label_means": {"clik": 0}},
         "monitoring.no_label_means.clik: got 'clik', expected the name of a label. Did you mean "
         "'click'?"),
        ({**KEY, "no_label_means": {"click": 0.5}},
         "monitoring.no_label_means.click: label 'click' is int64, expected a whole number"),
        ({"no_label_means": {"click": 0}},
         "monitoring: no_label_means needs key and label_delay. Add them."),
        ({**KEY, "intervals": {"group_by": "tags"}},
         "monitoring.intervals.group_by: feature 'tags' must be a single string or integer per "
         "row"),
        ({"conditions": [{"metric": "auc/click", "min": 0.5}]},
         "monitoring.conditions[0].metric: needs labels. Add key and label_delay to the section "
         "monitoring."),
        (condition(metric="auc/click"),
         "monitoring.conditions[0]: has no bound. Set min, max or max_loss."),
        (condition(metric="auc/clik", min=0.5),
         "monitoring.conditions[0].metric: got 'auc/clik', expected a metric of the gate. Did you "
         "mean 'auc/click'?"),
        (condition(metric="drift/prize", max=0.5),
         "monitoring.conditions[0].metric: got 'drift/prize', expected a metric of logs. Did you "
         "mean 'drift/price'?"),
        (condition(metric="drift/price", max=5),
         "monitoring.conditions[0]: max: drift is always between 0 and 1, got 5. Correct the "
         "bound."),
        (condition(metric="requests", max_loss=0.1),
         "monitoring.conditions[0]: requests is not measured by the gate. Set only min or max, "
         "and remove max_loss and slice."),
        (condition(metric="auc/click", min=0.5, slice="tags"),
         "monitoring.conditions[0].slice: feature 'tags' must be a single string or integer per "
         "row"),
        (condition(metric="request", max=5),
         "monitoring.conditions[0].metric: got 'request', expected a metric of logs. Did you mean "
         "'requests'?"),
        (condition(metric="unknown/cit", max=0.5),
         "monitoring.conditions[0].metric: got 'unknown/cit', expected a metric of logs. Did you "
         "mean 'unknown/city'?"),
    ],
)  # fmt: skip
def test_mistakes_are_named(document, section, message):
    with pytest.raises(SpecError) as error:
        parser.parse({**document, "monitoring": section})
    assert str(error.value).splitlines()[1].strip() == f"<dict>: {message}"


def test_it_is_kept_and_read_again(document):
    section = {
        **KEY,
        "no_label_means": {"click": 0.0},
        "intervals": {"samples": 50},
        "conditions": [
            {"metric": "auc/click", "max_loss": "5%", "periods": 2, "then": "roll_back"}
        ],
    }
    spec = parser.parse({**document, "monitoring": section})
    assert spec.to_dict()["monitoring"] == section
    assert parser.parse(spec.to_dict()).monitoring == spec.monitoring
    assert "monitoring" not in parser.parse(document).to_dict()
    assert spec.monitoring.delay == 86_400


def test_it_changes_nothing_that_a_training_finds(document):
    assert (
        parser.parse({**document, "monitoring": KEY}).fingerprint()
        == parser.parse(document).fingerprint()
    )
