"""The help of --model and the README say which models there are."""

from __future__ import annotations

import re

from estimator_kit.config.areas.run import ModelChoice
from estimator_kit.models import MODELS
from tests.conftest import ROOT


def test_the_help_lists_each_model():
    text = ModelChoice.model_fields["model"].description
    assert set(re.findall(r"\w+", text)) >= set(MODELS)


def test_the_readme_counts_them():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^\| built-in models \| (\d+) \|", text, re.M)[1] == str(len(MODELS))
