"""The client's distribution without the kit: servers, and a process that contains nothing else.

The servers have a model `ads`. Its output `value` is twice the `price` of an Example, plus 1 for
each of its `tags`.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import pathlib
import re
import subprocess
import sys
import threading
from concurrent import futures
from importlib import metadata

import grpc
import numpy as np

from estimator_kit.client import messages, tensors
from tests.conftest import DOCUMENT

VALUES = [2 * 1.5 + 2, 2 * 4.0 + 0]  # The answers for the rows in ask_alone.py.


def value(record):
    features = messages.message("tensorflow.Example").FromString(record).features.feature
    return 2 * features["price"].float_list.value[0] + len(features["tags"].bytes_list.value)


class _Rest(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        form = {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1"}]}}
        signature = {"inputs": {}, "outputs": {"value": form}, "method_name": ""}
        assert self.path == "/v1/models/ads/metadata"
        self._send({"model_spec": {"version": "1"}, "metadata": {"signature_def": {
            "signature_def": {"serving_default": signature}}}})  # fmt: skip

    def do_POST(self):
        assert self.path == "/v1/models/ads/versions/1:predict"
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        records = [base64.b64decode(item["b64"]) for item in body["inputs"]["examples"]]
        self._send({"outputs": [value(record) for record in records]})

    def _send(self, answer):
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def _predict(request, context):
    records = tensors.to_array(request.inputs["examples"])
    response = messages.message("tensorflow.serving.PredictResponse")()
    array = np.array([value(record) for record in records], np.float32)
    tensors.fill(response.outputs["value"], array)
    return response


@contextlib.contextmanager
def fake_servers():
    """The address of a gRPC server and the URL of a REST server."""
    handler = grpc.unary_unary_rpc_method_handler(
        _predict, messages.message("tensorflow.serving.PredictRequest").FromString,
        lambda message: message.SerializeToString(),
    )  # fmt: skip
    server = grpc.server(futures.ThreadPoolExecutor(1))
    service = "tensorflow.serving.PredictionService"
    handlers = grpc.method_handlers_generic_handler(service, {"Predict": handler})
    server.add_generic_rpc_handlers((handlers,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with http.server.HTTPServer(("127.0.0.1", 0), _Rest) as rest:
        thread = threading.Thread(target=rest.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{port}", f"http://127.0.0.1:{rest.server_address[1]}"
        finally:
            rest.shutdown()
            thread.join()
            server.stop(0).wait()


def link_requirements(folder, names):
    """Links installed distributions and their requirements into a folder."""
    folder = pathlib.Path(folder)
    names = list(names)
    for name in names:  # The loop appends requirements.
        distribution = metadata.distribution(name)
        for text in distribution.requires or ():
            required = re.match(r"[\w.-]+", text)[0]
            if "extra ==" not in text and required not in names:
                names.append(required)
        tops = {file.parts[:2] for file in distribution.files}
        for parts in tops:
            place = pathlib.Path(distribution.locate_file(parts[0]))
            if parts[0] in ("..", "__pycache__"):
                continue
            # Many distributions have a part of `google`.
            is_shared = place.is_dir() and not (place / "__init__.py").exists()
            path = pathlib.Path(*parts) if is_shared else pathlib.Path(parts[0])
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.is_symlink():
                target.symlink_to(distribution.locate_file(path))


def check(folder, tmp_path, names):
    """Runs ask_alone.py in a process that has only the package and these distributions."""
    requirements, spec = tmp_path / "requirements", tmp_path / "spec.json"
    link_requirements(requirements, names)
    spec.write_text(json.dumps(DOCUMENT))
    program = pathlib.Path(__file__).with_name("ask_alone.py")
    with fake_servers() as addresses:
        done = subprocess.run(
            [sys.executable, "-I", "-S", program, folder, requirements, spec, *addresses],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["answers"] == [VALUES, VALUES]
    assert said["found"] == []
    assert said["file"] == str(pathlib.Path(folder, "estimator_kit_client", "__init__.py"))
    assert said["said"] == (
        "spec.yaml: expected a folder or a .json file. Give the folder of an export, "
        "or install the kit with `pip install estimator-kit`."
    )
