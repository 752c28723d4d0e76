"""README.md and docs quote the speed that `make benchmark` measured, and no other one."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.no_tensorflow

TRAINING = "training from TFRecords, compared with the canned DNNClassifier"
CLAIM = r"\d[\d.]*\s+times\s+as\s+(?:many\s+rows|fast)"


def table() -> dict[str, list[str]]:
    """The cells of each row in docs/reference/speed.md by the first one."""
    text = (ROOT / "docs/reference/speed.md").read_text("utf-8")
    block = text.split("<!-- numbers -->")[1].split("<!-- end of numbers -->")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in block.splitlines()
        if line.startswith("|")
    ]
    return {first: rest for first, *rest in rows}


def test_the_readme_quotes_the_table():
    ratio = table()[TRAINING][-1].split()[0]
    (quoted,) = re.findall(CLAIM, (ROOT / "README.md").read_text("utf-8"))
    assert quoted.split()[0] == f"{float(ratio):.1f}"


def test_no_page_has_another_claim():
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "decisions" not in path.parts]
    assert [page for page in pages if re.search(CLAIM, page.read_text("utf-8"))] == []


def test_each_ratio_has_its_spread():
    ratios = re.findall(r"([\d.]+) \(([\d.]+) to ([\d.]+)\)", str(table()))
    assert len(ratios) > 20
    for median, least, most in ratios:
        assert float(least) <= float(median) <= float(most)
