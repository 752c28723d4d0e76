"""tools/check_language.py, on texts made up here."""

from __future__ import annotations

import pytest

from tools import check_language

pytestmark = pytest.mark.no_tensorflow

# The texts below have such phrases on purpose.
WRONG = "be" + "side"


def found(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return sorted((line, phrase) for line, phrase, _ in check_language.problems(path))


def test_a_phrase_is_found_in_its_line_also_over_two_lines(tmp_path):
    text = f"# Title\n\nIt works {WRONG}\nit. It pass" + "ed\nov" + "er a line.\n"
    assert found(tmp_path, "a.md", text) == [(3, WRONG), (4, "pass" + "ed ov" + "er")]


def test_code_and_tables_of_examples_are_left_out_of_markdown(tmp_path):
    text = (
        f"```sh\npython {WRONG}.py\n# {WRONG}\n```\n\n`{WRONG}`\n\n"
        f"| not | but |\n| --- | --- |\n| {WRONG} | with |\n\n| {WRONG} |\n"
    )
    # A comment in a block of code is read.
    assert found(tmp_path, "a.md", text) == [(3, WRONG), (12, WRONG)]


def test_comments_and_strings_of_python_are_read_and_names_are_not(tmp_path):
    text = f'{WRONG} = 1\n# One line\n# {WRONG}\nx = {WRONG} + "is {WRONG} it"\n'
    assert found(tmp_path, "a.py", text) == [(3, WRONG), (4, WRONG)]


def test_a_file_that_does_not_exist_is_an_error(capsys):
    assert check_language.main(["READMEE.md"]) == 2
    assert capsys.readouterr().out == (
        f"{check_language.ROOT}/READMEE.md: does not exist. Name files and folders of the "
        "repository.\n"
    )


def test_everything_exists():
    assert all((check_language.ROOT / name).exists() for name in check_language.EVERYTHING)
