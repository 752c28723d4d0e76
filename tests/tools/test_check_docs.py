"""tools/check_docs.py, on texts and pages made up here."""

from __future__ import annotations

import pytest

from tools import check_docs

pytestmark = pytest.mark.no_tensorflow


def test_links_that_lead_nowhere(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "data.md").write_text("# Data\n\n## `--train_days`, and a mix\n")
    (tmp_path / "README.md").write_text(
        "# Title\n\n[a](docs/data.md) [b](docs/data.md#--train_days-and-a-mix) [c](#title)\n"
        "[d](https://x.org) `[e](none.md)` [f](docs/none.md) [g](docs/data.md#none)\n\n"
        "```sh\n[h](none.md)\n```\n"
    )
    assert list(check_docs.broken_links(tmp_path)) == [
        "README.md: the link docs/none.md leads to a file that does not exist",
        "README.md: the link docs/data.md#none leads to a heading that does not exist",
    ]


@pytest.mark.parametrize(
    ("word", "count"),
    [("a", 1), ("data", 2), ("table", 2), ("make", 1), ("checked", 1), ("retraining", 3)],
)
def test_syllables(word, count):
    pytest.importorskip("pyphen", reason="the extra docs")
    assert check_docs.syllable_count(word) == count


def test_reading_ease_by_hand(monkeypatch):
    monkeypatch.setattr(
        check_docs, "syllable_count", {"the": 1, "cat": 1, "sees": 1, "water": 2}.get
    )
    # Two sentences, 6 words, 7 syllables.
    expected = 206.835 - 1.015 * 6 / 2 - 84.6 * 7 / 6
    assert check_docs.reading_ease("the cat sees. the cat water") == pytest.approx(expected)
    assert check_docs.reading_ease("") == 100


def test_prose_has_no_headings_tables_and_code():
    text = (
        "# Title\n\nOne [link](x.md) and `--flag=1` or `word`.\n\n| a | b |\n| - | - |\n\n"
        "```sh\nls\n```\n- item one\n- item two\n\n![picture](p.png)\n"
    )
    words = check_docs.prose(text).split()
    assert [word for word in words if word != "."] == [
        "One", "link", "and", "code", "or", "word..", "item", "one.", "item", "two.",
    ]  # fmt: skip


def test_a_page_that_is_hard_to_read(tmp_path, monkeypatch):
    monkeypatch.setattr(check_docs, "syllable_count", lambda word: 3)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Title\n")
    (tmp_path / "README.md").write_text("Organizations operationalize capabilities.\n")
    assert list(check_docs.hard_pages(tmp_path)) == [
        "README.md: its Flesch reading ease is -50.0, expected 50 or more. Use shorter sentences "
        "and shorter words."
    ]


def test_pages_that_need_the_network(tmp_path):
    (tmp_path / "a.html").write_text(
        '<link rel="canonical" href="https://x.org/a"><link rel="stylesheet" href="main.css">'
        '<a href="https://x.org">x</a><img src="//x.org/p.png"><script src="local.js"></script>'
    )
    (tmp_path / "a.css").write_text("@import 'https://fonts.org/f.css'; a {background: url(b.png)}")
    assert list(check_docs.loads_from_elsewhere(tmp_path)) == [
        "a.html: it loads //x.org/p.png from another host",
        "a.css: it loads https://fonts.org/f.css from another host",
    ]
    assert list(check_docs.loads_from_elsewhere(tmp_path / "none")) == [
        f"{tmp_path}/none does not exist. Build the site first, with `make docs`."
    ]
