"""A reader of the README gets what it shows, and it stays short; `pages` has the rules."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from input_pipelines.synthetic import impression_log
from tests.conftest import ROOT
from tests.integration import pages

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")


@pytest.mark.ci
def test_a_reader_gets_what_the_readme_shows(tmp_path, monkeypatch, report_page):
    folder = tmp_path / "work"
    folder.mkdir()
    impression_log.generate(str(folder / "data" / "ads"), rows=8000)  # As make demo does, but less.
    monkeypatch.syspath_prepend(str(folder))
    try:
        pages.follow(README, folder)
    finally:
        sys.modules.pop("one_layer", None)


def test_every_block_can_be_run_by_a_test():
    assert {block.language for block in pages.blocks(README)} <= set(pages.LANGUAGES)


def test_make_has_the_targets_that_the_readme_names():
    targets = re.findall(r"^make (\w+)|`make (\w+)`", TEXT, re.M)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in {first or second for first, second in targets}:
        assert re.search(rf"^{target}:", makefile, re.M), target
    subprocess.run(["make", "-n", "demo", "test"], cwd=ROOT, check=True, capture_output=True)


def test_the_table_of_extras_has_each_extra_for_users():
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = metadata.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = set(re.findall(r"^(\w+) = ", table, re.M)) - {"docs", "test"}
    assert set(re.findall(r"^\| `(\w+)` \|", TEXT, re.M)) == extras


def test_the_readme_is_short():
    assert len(TEXT.split()) <= 900


def test_links_and_images_lead_to_files():
    text = re.sub(r"^```.*?^```$", "", TEXT, flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert target.startswith("https://") or (ROOT / target).exists(), target
