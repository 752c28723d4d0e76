"""A reader of docs/tutorials gets what each page shows; `pages` has the rules."""

from __future__ import annotations

import re
import sys

import pytest

from tests.conftest import ROOT
from tests.integration import pages

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
# Other tests have their promises, for example test_clusters.py and test_retraining.py.
NIGHTLY = ("cluster", "model_life", "nightly_retraining")
WORDS = {"model_life": 1500}  # One page for all stages of a model. Other pages have 900 words.


@pytest.mark.ci
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=pytest.mark.nightly if page.stem in NIGHTLY else ())
        for page in TUTORIALS
    ],
)
def test_a_reader_gets_what_the_page_shows(page, tmp_path, monkeypatch, report_page):
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    try:
        pages.follow(page, folder)
    finally:
        for name in set(sys.modules) - before:  # Modules that the page wrote.
            module = sys.modules[name]  # A package without __init__.py has a path, but no file.
            places = f"{getattr(module, '__file__', '')} {getattr(module, '__path__', '')}"
            if str(folder) in places:
                del sys.modules[name]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_page_has_only_what_a_test_can_run(page):
    assert {block.language for block in pages.blocks(page)} <= set(pages.LANGUAGES)
    assert len(page.read_text(encoding="utf-8").split()) <= WORDS.get(page.stem, 900)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_page_names_extras_that_exist(page):
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = metadata.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = set(re.findall(r"^(\w+) = ", table, re.M))
    for named in re.findall(r"\.\[([\w,]+)\]", page.read_text(encoding="utf-8")):
        assert set(named.split(",")) <= extras
