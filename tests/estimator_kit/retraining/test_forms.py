"""The error for a damaged file of a cycle names the file and the field."""

from __future__ import annotations

import pytest

from estimator_kit import storage
from estimator_kit.errors import ConfigError
from estimator_kit.retraining import state


@pytest.mark.parametrize(
    ("what", "text", "problem"),
    [
        ("window", '{"as_of": "2026-02-30"}', "as_of: got '2026-02-30', expected a valid date in "),
        ("vocabularies", "{}", "spec is missing. Repair or remove it."),
        (
            "checks",
            '{"findings": [{"verdict": "warn"}]}',
            "findings[0].text is missing. Repair or ",
        ),
        ("start", '{"kind": 1}', "kind: got 1, expected a valid string. Repair or remove it."),
        ("train", '{"start": null}', "start: got None, expected an object. Repair or remove it."),
        ("gate", "[]", "the top level: got [], expected an object. Repair or remove it."),
        ("publishing", '{"above": "1"}', "above: got '1', expected a valid integer. Repair or "),
        ("promote", "{}", "version is missing. Repair or remove it."),
        ("clean", '{"removed": {}}', "removed: got {}, expected a valid array. Repair or "),
        ("lineage", '{"cycle": "1"}', "data is missing. Repair or remove it."),
        ("report", '{"as_of": 1}', "as_of: got 1, expected a valid string. Repair or remove it."),
        ("done", '{"outcome": "x"}', "outcome: got 'x', expected 'promoted', 'refused' or "),
    ],
)
def test_a_damaged_file_of_a_cycle(tmp_path, what, text, problem):
    folder = state.new(str(tmp_path))
    assert folder.read(what) is None
    storage.write_text(folder.at(f"{what}.json"), text)
    with pytest.raises(ConfigError) as error:
        folder.read(what)
    assert str(error.value).startswith(f"{folder.at(what)}.json: {problem}")
