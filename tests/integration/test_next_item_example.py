"""examples/next_item: its commands work, and both models come near the best possible recall."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests import programs
from tests.conftest import ROOT

pytestmark = pytest.mark.nightly

README = (ROOT / "examples" / "next_item" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("model", ["sasrec", "gru4rec"])
def test_the_commands_of_the_readme_reach_a_good_recall(model, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    # The second block trains on a public log.
    code, _ = re.findall(r"^```sh\n(.*?)^```$", README, re.M | re.S)
    lines = code.replace("\\\n", " ").splitlines()
    make, convert, *trainings = (shlex.split(line) for line in lines)
    (training,) = (line for line in trainings if f"{model}.flags" in line[-1])
    made = programs.run_script(tmp_path, *make[1:])
    best, ndcg = map(float, re.findall(r"best possible \w+ is ([\d.]+)", made.stdout))
    told = " ".join(README.split())
    assert f"`recall_at_10` of a model: {best}. The best possible `ndcg_at_10` is {ndcg}." in told
    for arguments in (convert[1:], ["train_and_evaluate", training[-1], "--epochs=15"]):
        done = programs.run(tmp_path, *arguments)
        assert done.returncode == 0, done.stderr
    metrics = json.loads((tmp_path / f"runs/next_item/{model}/result.json").read_text())["metrics"]
    assert 0.8 * best < metrics["recall_at_10/next"] < best + 0.03
    assert 0.8 * ndcg < metrics["ndcg_at_10/next"] < ndcg + 0.03
