"""tools/check_language.py, on texts made up here."""

from __future__ import annotations

import pytest

from tools import check_language

pytestmark = pytest.mark.no_tensorflow

# The texts below have such phrases on purpose.
WRONG = "be" + "side"
LONG = "pass" + "ed{}" + "over"


def found(text):
    return [(line, phrase) for line, phrase, _ in check_language.problems(text)]


@pytest.mark.parametrize("end", ["\n", "\n    # ", ' "\n    f"', "'\n' "])
def test_a_phrase_is_found_in_its_line_also_over_two_lines(end):
    text = f"# Title\n\nIt works {WRONG}\nit. It {LONG.format(end)} a line.\n"
    assert found(text) == [(3, WRONG), (4, "pass" + "ed over")]


def test_code_in_backticks_and_tables_of_examples_are_left_out():
    text = (
        f"```sh\n# {WRONG}\n```\n\n`{WRONG}`\n\n"
        f"| not | but |\n| --- | --- |\n| {WRONG} | with |\n\n| {WRONG} |\n"
    )
    assert found(text) == [(2, WRONG), (11, WRONG)]


def test_a_file_that_does_not_exist_is_an_error(capsys):
    assert check_language.main(["READMEE.md"]) == 2
    assert capsys.readouterr().out == (
        f"{check_language.ROOT}/READMEE.md: does not exist. Name files and folders of the "
        "repository.\n"
    )


def test_everything_exists():
    assert all((check_language.ROOT / name).exists() for name in check_language.EVERYTHING)
