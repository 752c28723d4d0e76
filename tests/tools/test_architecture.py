"""ARCHITECTURE.md, docs/decisions, and the files that they and the other pages name."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from tools import docs_hook

pytestmark = pytest.mark.no_tensorflow

FOLDER = ROOT / "docs" / "decisions"
PAGES = sorted(FOLDER.glob("*.md"))
# Lines of one screen.
SCREEN = 45


def test_each_floor_fits_on_a_screen():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    titles = [part.splitlines()[0] for part in parts]
    floors = ["feature_specs", "input_pipelines", "estimator_kit"]
    assert titles == ["# Architecture", *floors, "Where a file is written"]
    assert [title for title, part in zip(titles, parts) if part.count("\n") > SCREEN] == []


def test_the_floors_name_modules_that_exist():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for floor in ("feature_specs", "input_pipelines", "estimator_kit"):
        part = text.partition(f"\n## {floor}\n")[2].partition("\n## ")[0]
        for row in re.findall(r"^\| (`.*?) \|", part, re.MULTILINE):
            for name in re.findall(r"`([^`]+)`", row):
                folder = "config/" if name in ("flagfile.py", "cluster.py") else ""
                assert (ROOT / floor / f"{folder}{name}").exists(), f"{floor}/{folder}{name}"


def test_a_file_is_named_in_the_module_that_writes_it():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*) \| (`.*) \|$", text.partition("\n## Where")[2], re.MULTILINE)
    assert len(rows) == 14
    for files, modules in rows:
        paths = [ROOT / path for path in re.findall(r"`([\w/]+\.py)`", modules) if "/" in path]
        code = "".join(path.read_text(encoding="utf-8") for path in paths)
        for name in re.findall(r"`([\w./]+\.jsonl?|_SUCCESS|search.journal)`", files):
            assert name.rpartition("/")[2] in code or not paths, name


def test_the_pages_name_files_that_exist():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    top = "estimator_kit|input_pipelines|feature_specs|tests|tools|benchmarks|examples"
    named = {
        (page.name, path)
        for page in pages
        if page.name != "CHANGELOG.md"  # It also names what was.
        for path in re.findall(rf"`((?:{top})/[\w./]+)`", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 50
    missing = [
        (page, path)
        for page, path in sorted(named)
        if not any((ROOT / (path + end)).exists() for end in ("", ".py"))
    ]
    assert missing == [], missing


def test_decisions_are_numbered_without_gaps():
    assert [int(page.name[:3]) for page in PAGES] == list(range(1, len(PAGES) + 1))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_is_short_and_has_three_sections(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    sections = [line for line in lines if line.startswith("## ")]
    assert sections == ["## Context", "## Decision", "## Price"]
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 100


def test_the_list_of_decisions():
    text = docs_hook.decisions_page(FOLDER)
    assert text.count("\n- ") == len(PAGES)
    assert "\n- 014: [A warm start compares meanings, not only shapes](014-a-" in text
