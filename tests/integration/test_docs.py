"""Every command of docs/export.md, docs/serving.md and the README's part on serving works."""

from __future__ import annotations

import base64
import json
import re
import shlex
import shutil
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
from absl import flags

import estimator_kit as ek
from estimator_kit import main
from estimator_kit.config.flags import config_from_flags, define_flags
from estimator_kit.serving import server
from input_pipelines.synthetic import impression_log
from tests.conftest import ROOT
from tests.integration.test_readme import README, snippets, write_logs

EXPORT = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
SERVING = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
CONSOLE = "".join(re.findall(r"^```console\n(.*?)^```$", README, re.M | re.S))

pytestmark = pytest.mark.ci


def commands(text, program="python"):
    """The arguments of the commands of a program in a text."""
    joined = re.sub(r" *\\\n *", " ", text)
    whole = re.sub(r"(?<=-d )'[^']*'|'[^'\n]*\n[^'\n]*'", lambda m: m[0].replace("\n", " "), joined)
    found = re.findall(rf"^{program} (.*)$", whole, re.M)
    return [shlex.split(line, comments=True) for line in found]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with what the commands name: data, a table of them, and exports in their places."""
    folder = tmp_path_factory.mktemp("docs")
    impression_log.generate(str(folder / "data" / "ads"), rows=1600)
    write_logs(folder)
    (folder / "spec.yaml").write_text(snippets("yaml")[0])
    made = ek.run(ek.ExperimentConfig(
        spec=f"{folder}/spec.yaml", model_dir=f"{folder}/runs/trained", max_steps=2,
        train_files=(f"{folder}/data/ads/dt=2026-01-01/*.tfrecord",), exporters=("final",),
        eval_files=(f"{folder}/data/ads/dt=2026-01-08/*.tfrecord",),
    ))  # fmt: skip
    # The model that exp.flags trains.
    ads = ek.run(ek.ExperimentConfig(
        spec=str(ROOT / "feature_specs/catalog/ads.yaml"), model_dir=f"{folder}/runs/ads",
        max_steps=2, exporters=("final",),
        train_files=(f"{folder}/data/ads/dt=2026-01-01/*.tfrecord",),
        eval_files=(f"{folder}/data/ads/dt=2026-01-08/*.tfrecord",),
    ))  # fmt: skip
    for export, places in (
        (made, ("mine/export/final/1767225600", "mine/export/best/1767225600",
                "mine/export/best/1767312000", "next/export/best/1767225600")),
        (ads, ("ads/export/best/1767225600", "ads/export/best/1767312000")),
    ):  # fmt: skip
        for place in places:
            shutil.copytree(export.export_path, folder / "runs" / place)
    return folder


def test_the_commands_are_those_that_are_tested_here():
    modes = [[argument.partition("=")[2] for argument in command if "--mode=" in argument]
             for text in (EXPORT, SERVING, CONSOLE) for command in commands(text)]  # fmt: skip
    assert modes == [
        ["predict"], ["evaluate"], ["inspect"], ["transform"], ["transform"], ["serving_config"],
        ["serve"], ["serve"], ["serving_config"],
    ]  # fmt: skip


def test_what_ends_by_itself(home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    for text in (EXPORT, SERVING, CONSOLE):
        for command in commands(text):
            if "--mode=serve" not in command:
                assert main.main(command) == 0, f"{command}\n{capsys.readouterr().err}"
    scored = sorted(path.name for path in (home / "scored").iterdir())
    assert scored == ["2026-01-01.parquet", "_MANIFEST.json", "_PLAN.json", "_SUCCESS"]
    assert (home / "serving" / "models.config").exists()
    kept = json.loads((home / "runs" / "mine" / "evaluation-export.json").read_text())
    assert kept["export_dir"] == "runs/mine/export/best/1767312000" and kept["rows_evaluated"]
    assert "by runs/mine/export/final/1767225600: " in capsys.readouterr().out


def test_the_servers_answer_the_curl_lines(home, monkeypatch):
    monkeypatch.chdir(home)
    (written,) = [c for c in commands(SERVING) if "--mode=serving_config" in c]
    more = [flag for flag in written if flag.startswith(("--serving_versions", "--serving_labels"))]
    for command in [*commands(SERVING), *commands(CONSOLE)]:
        if "--mode=serve" not in command:
            continue
        values = flags.FlagValues()
        define_flags(values)
        ports = ["--serving_grpc_port=0", "--serving_rest_port=0", "--serving_poll_secs=0.01"]
        values([*command, *more, *ports])
        with server.running(config_from_flags(values)) as (made, _):
            asked = [ask(arguments, made.addresses[1], home) for arguments in curl_lines()]
    status, metadata, classes, labelled = asked
    versions = {entry["version"]: entry["state"] for entry in status["model_version_status"]}
    assert versions == {"1767225600": "AVAILABLE", "1767312000": "AVAILABLE"}
    assert "predict_raw" in metadata["metadata"]["signature_def"]["signature_def"]
    assert [len(row) for row in classes["results"]] == [2]
    assert len(labelled["outputs"]["click/logits"]) == 1


def test_the_example_of_the_client(home, monkeypatch):
    """As it stands on the page, by gRPC and by REST, at the server that the page starts."""
    monkeypatch.chdir(home)
    (code,) = re.findall(r"^```python\n(.*?)^```$", SERVING, re.M | re.S)
    by_rest = code.replace('GrpcClient("localhost:8500"', 'RestClient("http://localhost:8501"')
    assert by_rest != code
    (command,) = [c for c in commands(SERVING) if "--mode=serve" in c]
    (written,) = [c for c in commands(SERVING) if "--mode=serving_config" in c]
    more = [flag for flag in written if flag.startswith(("--serving_versions", "--serving_labels"))]
    values = flags.FlagValues()
    define_flags(values)
    values([*command, *more, "--serving_grpc_port=0", "--serving_rest_port=0",
            "--serving_poll_secs=0.01"])  # fmt: skip
    with server.running(config_from_flags(values)) as (made, _):
        for text in (code, by_rest):
            text = text.replace("localhost:8500", made.addresses[0])
            text = text.replace("http://localhost:8501", made.addresses[1])
            found: dict = {}
            exec(text.replace("timeout_secs=2", "timeout_secs=60"), found)
            outputs, raw = found["outputs"], found["raw_outputs"]
            assert set(outputs) == set(raw) and outputs["click/logits"].shape == (1, 1)
            np.testing.assert_allclose(raw["click/logits"], outputs["click/logits"], rtol=1e-5)
            (probability,) = outputs["click/logistic"].ravel()
            np.testing.assert_allclose(found["classes"].scores[0, 1], probability, rtol=1e-5)
            np.testing.assert_allclose(found["values"], [probability], rtol=1e-5)


def curl_lines():
    found = commands(SERVING, "curl")
    assert len(found) == 4
    return found


def ask(arguments, url, home):
    """What a curl line gets; the record that the page leaves out is a real one."""
    body = arguments[arguments.index("-d") + 1] if "-d" in arguments else None
    address = arguments[-1].replace("http://127.0.0.1:8501", url)
    if body is not None and "Cgk..." in body:
        first = next((home / "data" / "ads" / "dt=2026-01-08").glob("*.tfrecord"))
        record = next(tf.data.TFRecordDataset(str(first)).as_numpy_iterator())
        body = body.replace("Cgk...", base64.b64encode(record).decode())
    data = None if body is None else json.dumps(json.loads(body)).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data), timeout=60) as answer:
        return json.loads(answer.read())
