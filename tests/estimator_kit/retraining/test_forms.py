"""The error for a damaged file of a cycle names the file and the field."""

from __future__ import annotations

import pytest

from estimator_kit.errors import ConfigError
from estimator_kit.retraining import cycle_files
from feature_specs.files import documents
from tests.estimator_kit.retraining import reports


@pytest.mark.parametrize(
    ("what", "text", "problem"),
    [
        ("window", '{"as_of": 20260207}', "as_of: got 20260207, expected a valid string. Repair "),
        ("vocabularies", "{}", "spec is missing. Repair or remove it."),
        ("checks", '{"findings": [{"check": "spec"}]}', "findings[0].verdict is missing"),
        ("drift", '{"measures": [{"kind": "label"}]}', "measures[0].name is missing. Repair or "),
        ("start", '{"kind": 1}', "kind: got 1, expected a valid string. Repair or remove it."),
        ("train", '{"start": null}', "start: got None, expected an object. Repair or remove it."),
        ("gate", "[]", "the top level: got [], expected an object. Repair or remove it."),
        ("publishing", '{"above": "1"}', "above: got '1', expected a valid integer. Repair or "),
        ("promote", "{}", "version is missing. Repair or remove it."),
        ("clean", '{"removed": {}}', "removed: got {}, expected a valid array. Repair or "),
        ("lineage", '{"cycle": "1"}', "parent is missing. Repair or remove it."),
        ("report", '{"cycle": 1}', "cycle: got 1, expected a valid string. Repair or remove it."),
        ("done", '{"outcome": "x"}', "outcome: got 'x', expected 'promoted', 'refused' or "),
    ],
)
def test_a_damaged_file_of_a_cycle(tmp_path, what, text, problem):
    form = reports.FORMS[f"{what}.json"]
    folder = cycle_files.new(str(tmp_path))
    assert folder.load(form) is None
    documents.write_text(folder.at(form.NAME), text)
    with pytest.raises(ConfigError) as error:
        folder.load(form)
    assert str(error.value).startswith(f"{folder.at(form.NAME)}: {problem}")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"gate": [{"text": "", "passed": True, "low": "x"}]}, "gate[0].low: got 'x', expected a "),
        ({"intervals": {"auc/click": {"live": [0.5]}}}, "intervals.auc/click.live[1] is missing"),
        ({"checks": [7]}, "checks[0]: got 7, expected an object"),
        ({"label_means": {"click": 0.5}}, "label_means.click: got 0.5, expected an object"),
    ],
)
def test_a_damaged_report(tmp_path, change, problem):
    """The history and the pages use all fields of a report."""
    folder, form = cycle_files.new(str(tmp_path)), reports.FORMS["report.json"]
    for found in reports.three():
        folder.save(found)
        assert folder.output(form).as_json() == found.as_json()
    documents.write_json(folder.at("report.json"), {**found.as_json(), **change})
    with pytest.raises(ConfigError) as error:
        folder.load(form)
    assert str(error.value).startswith(f"{folder.at('report')}.json: {problem}")
