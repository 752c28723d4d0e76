"""The files for TensorFlow Serving: their text, and what its messages read from it."""

from __future__ import annotations

import http.server
import pathlib
import shutil
import subprocess
import threading

import pytest
import yaml
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

import estimator_kit as ek
from estimator_kit.client import messages
from estimator_kit.client.base import BATCH_ROWS
from estimator_kit.config.areas.serving import ServedModel
from estimator_kit.serving import config_files

IMAGE = config_files.default_image()


def config(folder, **changes):
    values = {
        "mode": "serve",
        "serving_models": ("ads=runs/ads/export/best", "far=gs://b/far", "old=$x"),
        "serving_versions": ("ads=5+7", "far=all", "old=latest:2"),
        "serving_labels": ("ads:stable=5", "ads:canary=7"),
        "serving_config_dir": str(folder),
    }  # fmt: skip
    return ek.ExperimentConfig(**{**values, **changes})


@pytest.fixture(autouse=True)
def without_the_models_of_the_demo(tmp_path, monkeypatch):
    """The paths of models are relative, and `make demo` writes one of them in the checkout."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def files(tmp_path):
    config_files.write(config(tmp_path))
    return {path.name: path.read_text() for path in tmp_path.iterdir()}


def test_models_config(files):
    read = text_format.Parse(files["models.config"], model_server_config_pb2.ModelServerConfig())
    ads, far, old = read.model_config_list.config
    assert (ads.name, ads.base_path, ads.model_platform) == ("ads", "/models/ads", "tensorflow")
    assert list(ads.model_version_policy.specific.versions) == [5, 7]
    assert dict(ads.version_labels) == {"stable": 5, "canary": 7}
    assert far.base_path == "gs://b/far"
    assert far.model_version_policy.WhichOneof("policy_choice") == "all"
    assert old.model_version_policy.latest.num_versions == 2


def test_batching_and_monitoring(files):
    kind = messages.message("tensorflow.serving.BatchingParameters")
    read = text_format.Parse(files["batching_parameters.txt"], kind())
    assert read.batch_timeout_micros.value == 1000
    # The server does not refuse a client's request of 1000 rows.
    assert read.max_batch_size.value == BATCH_ROWS == 1000
    # The models do not exist, so that their outputs are unknown.
    assert not read.enable_large_batch_splitting.value
    assert not read.HasField("max_execution_batch_size")
    assert files["monitoring.config"].endswith(
        'prometheus_config {\n  enable: true\n  path: "/monitoring/prometheus/metrics"\n}\n'
    )


def test_more_rows_a_batch_than_a_client_sends(tmp_path):
    made = config(tmp_path, serving_batch_rows=4096)
    text = config_files.batching_parameters(made, splits=True)
    kind = messages.message("tensorflow.serving.BatchingParameters")
    read = text_format.Parse(text, kind())
    assert (read.max_batch_size.value, read.max_execution_batch_size.value) == (4096, 4096)


def write_signature(folder, version, *shapes):
    """Writes the graph of a version, whose signature `ask` has outputs of these shapes."""
    saved = messages.message("tensorflow.SavedModel")()
    for i, shape in enumerate(shapes):
        info = saved.meta_graphs.add().signature_def["ask"].outputs[f"y{i}"]
        info.tensor_shape.unknown_rank = shape is None
        for size in shape or ():
            info.tensor_shape.dim.add().size = size
    (folder / version).mkdir(parents=True)
    (folder / version / "saved_model.pb").write_bytes(saved.SerializeToString())


def test_requests_are_split_if_no_output_differs_in_width(tmp_path):
    ads, steps = tmp_path / "ads", tmp_path / "steps"
    write_signature(ads, "1", [-1], [-1, 3], [-1, 2, 2], [])
    write_signature(steps, "1", [-1, 3])
    made = config(tmp_path / "out", serving_models=(f"ads={ads}", f"steps={steps}"),
                  serving_versions=(), serving_labels=())  # fmt: skip
    assert "without splitting" not in config_files.write(made)
    kind = messages.message("tensorflow.serving.BatchingParameters")
    path = tmp_path / "out" / "batching_parameters.txt"
    read = text_format.Parse(path.read_text(), kind())
    assert read.enable_large_batch_splitting.value
    assert (read.max_batch_size.value, read.max_execution_batch_size.value) == (1000, 128)
    write_signature(steps, "2", [-1, 3], [-1, -1])
    assert (
        "\n  batches of up to 1000 rows, without splitting requests: steps: the width of 'y1' of "
        "ask differs between batches\n"
    ) in config_files.write(made)
    assert not text_format.Parse(path.read_text(), kind()).enable_large_batch_splitting.value


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("gs://b/ads", "ads: gs://b/ads is not read"),
        ("none", "ads: none has no version yet"),
        ("damaged", "ads: damaged/3/saved_model.pb cannot be read (DecodeError)"),
        ("empty", "ads: empty/3/saved_model.pb cannot be read (FileNotFoundError)"),
        ("rank", "ads: the width of 'y0' of ask differs between batches"),
    ],
)
def test_why_requests_are_not_split(tmp_path, path, reason):
    for name in ("damaged", "empty"):
        (tmp_path / name / "3").mkdir(parents=True)
    (tmp_path / "damaged" / "3" / "saved_model.pb").write_bytes(b"\xff")
    write_signature(tmp_path / "rank", "3", None)
    assert config_files.reason_against_splitting([ServedModel("ads", path)]) == reason


ARGUMENTS = [
    "--model_config_file=/config/models.config",
    "--monitoring_config_file=/config/monitoring.config",
    "--enable_batching=true",
    "--batching_parameters_file=/config/batching_parameters.txt",
    "--allow_version_labels_for_unavailable_models=true",
]
EXAMPLES = pathlib.Path(__file__).parents[3] / "examples" / "serving"


def check_server(image, arguments):
    """The example starts the newest image, with all files that the kit writes."""
    constraints = (EXAMPLES.parents[1] / "constraints" / "tf221.txt").read_text()
    assert f"tensorflow-serving-api=={image.removeprefix('tensorflow/serving:')}\n" in constraints
    assert arguments == [
        "--port=8500", "--rest_api_port=8501", "--enable_grpc_healthcheck_service=true",
        "--file_system_poll_wait_seconds=1", "--model_config_file_poll_wait_seconds=60",
        *ARGUMENTS,
    ]  # fmt: skip


def test_the_compose_file_of_the_examples():
    service = yaml.safe_load((EXAMPLES / "docker-compose.yaml").read_text())["services"]["serving"]
    assert service["entrypoint"] == ["tensorflow_model_server"]
    check_server(service["image"], service["command"])
    assert service["ports"] == ["127.0.0.1:8500:8500", "127.0.0.1:8501:8501"]
    assert service["volumes"] == ["./serving:/config:ro", "./runs/mine/export/best:/models/ads:ro"]


def test_the_kubernetes_example():
    deployment, service = yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text())
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["tensorflow_model_server"]
    check_server(container["image"], container["args"])
    # Numbers, because a gRPC probe does not accept the name of a port.
    startup, live = container["startupProbe"], container["livenessProbe"]
    assert startup["grpc"] == live["grpc"] == {"port": 8500}
    assert startup["failureThreshold"] * startup["periodSeconds"] == 600  # For the first versions.
    assert pod["spec"]["terminationGracePeriodSeconds"] == 60
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"config": "/config", "models": "/models"}
    assert mounts.keys() == {volume["name"] for volume in pod["spec"]["volumes"]}
    assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {p["targetPort"]: p["port"] for p in service["spec"]["ports"]} == ports
    assert pod["metadata"]["annotations"]["prometheus.io/port"] == "8501"
    path = pod["metadata"]["annotations"]["prometheus.io/path"]
    assert f'path: "{path}"' in config_files.monitoring_config()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash runs the script")
@pytest.mark.parametrize(
    ("statuses", "code", "said"),
    [({"ads": 200, "next": 200}, 0, ""), ({"ads": 200, "next": 404}, 1, "next: 404\n"),
     ({"ads": 404, "next": 200}, 1, "ads: 404\n")],
)  # fmt: skip
def test_a_pod_is_ready_when_all_its_models_are(statuses, code, said):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.removeprefix("/v1/models/").removesuffix("/metadata")
            self.send_response(statuses[name])
            self.end_headers()

        def log_message(self, *args):
            pass

    deployment, _ = yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    *bash, script = container["readinessProbe"]["exec"]["command"]
    assert bash == ["bash", "-c"] and script.startswith("for model in ads; do\n")
    script = script.replace("in ads;", "in ads next;")
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            done = subprocess.run(
                ["bash", "-c", script.replace("8501", str(server.server_address[1]))],
                capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip
        finally:
            server.shutdown()
            thread.join()
    assert (done.returncode, done.stdout) == (code, said), done.stderr


def test_what_is_said_and_what_is_left_out(tmp_path):
    made = config(
        tmp_path, serving_models=("ads=x",), serving_versions=(), serving_labels=(),
        serving_batch_rows=0,
    )  # fmt: skip
    assert config_files.write(made).splitlines() == [
        f"wrote to {tmp_path}: models.config, monitoring.config",
        f"  image: {IMAGE}",
        "  ads: x, the latest 1 versions",
        "  warning: ads: the folder x does not exist",
        f"  flags, with {tmp_path} at /config: {ARGUMENTS[0]} {ARGUMENTS[1]}",
    ]


def test_versions_that_are_not_there_are_warned_of(tmp_path):
    (tmp_path / "ads" / "005").mkdir(parents=True)
    (tmp_path / "old" / "temp-7").mkdir(parents=True)
    models = (f"ads={tmp_path}/ads", "far=gs://b/far", f"old={tmp_path}/old")
    said = config_files.write(config(tmp_path / "made", serving_models=models))
    assert said.endswith(f"made at /config: {' '.join(ARGUMENTS)}")
    assert [line for line in said.splitlines() if "warning" in line] == [
        f"  warning: ads: {tmp_path}/ads has no version 7",
        f"  warning: old: {tmp_path}/old has no version",
    ]


def test_the_image_is_that_of_the_installed_line():
    from importlib import metadata

    release = IMAGE.partition(":")[2]
    assert IMAGE.startswith("tensorflow/serving:")
    assert release.split(".")[:2] == metadata.version("tensorflow").split(".")[:2]
