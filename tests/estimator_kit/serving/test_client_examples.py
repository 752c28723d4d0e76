"""The `client_examples` of an export, sent to its server, answer like `predict`."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from estimator_kit.exporters import sample_rows, saved_model
from input_pipelines.input_fns import predict_input_fn
from input_pipelines.record_files import writing
from tests.conftest import DOCUMENT, make_rows
from tests.estimator_kit.serving.small_models import serving
from tests.estimator_kit.small_training import trained_wide_deep

pytestmark = pytest.mark.ci

predict_pb2 = pytest.importorskip("tensorflow_serving.apis.predict_pb2")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of an export's examples, its server, and the Estimator's predictions."""
    folder = tmp_path_factory.mktemp("clicks")
    rows = make_rows(20)
    writing.write_examples(f"{folder}/eval.tfrecord", rows)
    made, spec = trained_wide_deep(folder, DOCUMENT, rows, steps=2)
    sample = sample_rows.sample_rows(spec, [f"{folder}/eval.tfrecord"])
    path = saved_model.export_saved_model(made, spec, f"{folder}/export", rows=sample)
    # The examples send the first row that `predict_raw` can take.
    row = int(sample.sendable.argmax())
    predicted = made.predict(predict_input_fn(spec, list(sample.files), batch_size=20),
                             yield_single_examples=False)  # fmt: skip
    expected = {name: values[row : row + 1] for name, values in next(iter(predicted)).items()}
    served = serving(f"{folder}/export", serving_models=(f"clicks={folder}/export",))
    with served as (grpc_address, url, _):
        yield pathlib.Path(path) / "client_examples", grpc_address, url, expected


def same(found, expected):
    """Compares named outputs of REST or gRPC with the Estimator's predictions."""
    assert set(found) == set(expected)
    for name, values in expected.items():
        if values.dtype == np.object_:
            texts = [v.decode() if isinstance(v, bytes) else v for v in np.ravel(found[name])]
            assert texts == [v.decode() for v in np.ravel(values)], name
        else:
            np.testing.assert_allclose(found[name], values, rtol=1e-6, atol=1e-6, err_msg=name)


def rest_outputs(answer):
    """`outputs` of a body. REST omits the name of a single output; here are ten outputs."""
    return json.loads(answer)["outputs"]


def json_values(text):
    """The JSON values in a text, one after the other."""
    decoder, values, at = json.JSONDecoder(), [], 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
        values.append(value)
    return values


def test_the_requests_of_the_curl_line(exported):
    folder, _, url, expected = exported
    script = (folder / "curl.sh").read_text()
    (line,) = re.findall(r"^  curl (.*)$", script, re.M)
    (names,) = re.findall(r"^for request in (.*); do$", script, re.M)
    assert line == '--fail-with-body -d "@$request" "$url" || status=$?'
    (address,) = re.findall(r'^url="\$\{1:-http://localhost:8501\}(\S+)"$', script, re.M)
    address = address.replace("${2:-clicks}", "clicks")
    assert names.split() == ["request.json", "request_examples.json"]
    for name in names.split():
        asked = urllib.request.Request(url + address, (folder / name).read_bytes())
        with urllib.request.urlopen(asked, timeout=60) as answer:
            same(rest_outputs(answer.read()), expected)


def answer_of(*command, cwd, path=""):
    """How a script of the export ends, if programs are found only in the folders of `path`."""
    environment = {"PATH": path, "TF_CPP_MIN_LOG_LEVEL": "3", "no_proxy": "*"}
    return subprocess.run(
        [*map(str, command)], cwd=cwd, capture_output=True, text=True, timeout=240, check=False,
        env=environment,
    )  # fmt: skip


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_curl_script_from_another_folder(exported, tmp_path):
    folder, _, url, expected = exported
    command = ("/bin/sh", folder / "curl.sh", url)
    done = answer_of(*command, cwd=tmp_path, path=os.environ["PATH"])
    assert done.returncode == 0, done.stderr
    first, second = json_values(done.stdout)
    for answer in (first, second):
        same(answer["outputs"], expected)
    refused = answer_of(*command, "other", cwd=tmp_path, path=os.environ["PATH"])
    error = {"error": "unknown model 'other'. Use one of: clicks."}
    assert (refused.returncode, json_values(refused.stdout)) == (22, [error, error])


@pytest.mark.nightly  # The curl script asks for another model, too.
def test_the_program_of_grpc_asks_a_model_of_another_name(exported, tmp_path):
    folder, address, _, _ = exported
    done = answer_of(sys.executable, folder / "predict_grpc.py", address, "other", cwd=tmp_path)
    assert done.returncode == 1
    assert "unknown model 'other'. Use one of: clicks." in done.stderr


def test_the_program_of_grpc(exported, tmp_path):
    folder, address, _, expected = exported
    done = answer_of(sys.executable, folder / "predict_grpc.py", address, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    response = text_format.Parse(done.stdout, predict_pb2.PredictResponse())
    assert response.model_spec.name == "clicks"
    assert response.model_spec.signature_name == "predict_examples"
    same({name: tf.make_ndarray(t) for name, t in response.outputs.items()}, expected)
