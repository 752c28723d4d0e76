"""`--mode=serving_config`: writes the files to start TensorFlow Serving with.

    models.config              models, version policies, labels      ModelServerConfig
    batching_parameters.txt    how requests share batches             BatchingParameters
    monitoring.config          metrics for Prometheus                 MonitoringConfig
    docker-compose.yaml        one server on this machine
    kubernetes.yaml            ConfigMap, Deployment and Service

The first three are text protocol buffers. Each one is parsed again before it is written. The first
is an official message. No package has the messages of the other two, so
`estimator_kit.client.messages` makes them. Starts nothing.

Whether TensorFlow Serving may split the requests of models into several batches.

With `enable_large_batch_splitting` it fills each batch with parts of requests, and puts the answers
to the parts together by copying their bytes (`tensor::Concat` in TensorFlow's tensor_util.cc). It
does not compare their shapes. So an output that is as wide as the widest row of its batch, such as
`items` of `top_k/<objective>` or the steps of a row, would get wrong rows, or end the server.

This module reads the signatures of local models, and never loads a model.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import metadata
from typing import Any, Optional

import yaml
from google.protobuf import text_format

from estimator_kit.client import messages
from estimator_kit.client.base import BATCH_ROWS
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.mode_configs import ServingFilesConfig
from estimator_kit.config.rules.serving import ServedModel, served_models
from feature_specs.files import documents, staged
from input_pipelines.errors import MissingPackageError


def reason_against_splitting(models: Sequence[ServedModel]) -> Optional[str]:
    """Why requests may not be split; None if all outputs of all models have a fixed width."""
    for model in models:
        reason = _reason_against_splitting(model)
        if reason is not None:
            return f"{model.name}: {reason}"
    return None


def _reason_against_splitting(model: ServedModel) -> Optional[str]:
    if "://" in model.path:
        return f"{model.path} is not read"
    names = os.listdir(model.path) if os.path.isdir(model.path) else []
    versions = [name for name in names if name.isascii() and name.isdigit()]
    if not versions:
        return f"{model.path} has no version yet"
    for version in sorted(versions):
        path = os.path.join(model.path, version, "saved_model.pb")
        try:
            with open(path, "rb") as file:
                saved = messages.message("tensorflow.SavedModel").FromString(file.read())
        except Exception as error:  # OSError, or protobuf's DecodeError.
            return f"{path} cannot be read ({type(error).__name__})"
        for meta in saved.meta_graphs:
            for name, signature in sorted(meta.signature_def.items()):
                for output, info in sorted(signature.outputs.items()):
                    sizes = [dim.size for dim in info.tensor_shape.dim]
                    if info.tensor_shape.unknown_rank or min(sizes[1:], default=0) < 0:
                        return f"the width of {output!r} of {name} differs between batches"
    return None


_HEAD = "# Written by estimator-kit --mode=serving_config; the next run overwrites it.\n"
_MODELS, _CONFIG = "/models", "/config"
_PROMETHEUS_PATH = "/monitoring/prometheus/metrics"
_GRPC, _REST = 8500, 8501

# How long a request waits for others to share a batch with.
_BATCH_TIMEOUT_MICROS = 1000

# Seconds in which an ending pod still accepts requests, until clients know that it ends.
_LAME_DUCK_SECS = 10

# Memory of a server without its models, and of a model that this machine cannot read.
_SERVER_MIB, _MODEL_MIB = 512, 512


def write(config: ServingFilesConfig) -> str:
    """Writes the files and returns the summary for the user.

    Raises:
      ConfigError: the folder cannot be written.
      MissingPackageError: the extra `serving` is not installed, or TensorFlow has no file system
        for the folder.
    """
    staged.check_writable(config.serving_config_dir, flag="--serving_config_dir")
    models = served_models(config)
    image = default_image()
    files = {
        "models.config": models_config(models),
        "monitoring.config": monitoring_config(),
        "docker-compose.yaml": docker_compose(config, models, image),
    }
    reason = reason_against_splitting(models)
    if config.serving_batch_rows:
        parameters = batching_parameters(config, splits=reason is None)
        files["batching_parameters.txt"] = parameters
    protos = {name: text for name, text in files.items() if not name.endswith(".yaml")}
    files["kubernetes.yaml"] = kubernetes(config, models, image, protos)
    folder = config.serving_config_dir
    for name, text in sorted(files.items()):
        documents.write_text(os.path.join(folder, name), _HEAD + text)
    lines = [f"wrote to {folder}: {', '.join(sorted(files))}", f"  image: {image}"]
    for model in models:
        lines.append(f"  {model.name}: {model.path}, {_policy_text(model)}")
        lines += [f"  warning: {text}" for text in _missing_versions(model)]
    if config.serving_batch_rows and reason is not None:
        rows = max(config.serving_batch_rows, BATCH_ROWS)
        lines.append(f"  batches of up to {rows} rows, without splitting requests: {reason}")
    lines.append(f"  start: docker compose -f {folder}/docker-compose.yaml up")
    return "\n".join(lines)


def default_image() -> str:
    """The image of the TensorFlow Serving release whose protos are installed.

    It contains the TensorFlow of the same minor version, which reads the exports of that version.
    """
    try:
        return f"tensorflow/serving:{metadata.version('tensorflow-serving-api')}"
    except metadata.PackageNotFoundError as error:
        raise _missing(error) from error


def models_config(models: Sequence[ServedModel]) -> str:
    """A `ModelServerConfig` in text format."""
    try:
        from tensorflow_serving.config import model_server_config_pb2
    except ImportError as error:
        raise _missing(error) from error

    made = model_server_config_pb2.ModelServerConfig()
    for model in models:
        entry = made.model_config_list.config.add()
        entry.name = model.name
        entry.base_path = _base_path(model)
        entry.model_platform = "tensorflow"
        policy = entry.model_version_policy
        if model.policy == "latest":
            policy.latest.num_versions = model.latest
        elif model.policy == "all":
            policy.all.SetInParent()
        else:
            policy.specific.versions.extend(sorted(model.specific))
        for label, version in sorted(model.labels.items()):
            entry.version_labels[label] = version
    return _checked(made)


def batching_parameters(config: ExperimentConfig, *, splits: bool) -> str:
    """`BatchingParameters` in text format.

    If the server `splits` requests (see `splitting`), the model gets at most `--serving_batch_rows`
    rows at once. Otherwise it gets as many as a request may have.

    `num_batch_threads` keeps its default, the number of cores. `pad_variable_length_inputs` is
    false, because padding a list with its first value would change its meaning.
    """
    made = messages.message("tensorflow.serving.BatchingParameters")()
    # The server refuses larger requests, and the client sends BATCH_ROWS rows.
    made.max_batch_size.value = max(config.serving_batch_rows, BATCH_ROWS)
    if splits:
        made.enable_large_batch_splitting.value = True
        made.max_execution_batch_size.value = config.serving_batch_rows
    made.batch_timeout_micros.value = _BATCH_TIMEOUT_MICROS
    made.max_enqueued_batches.value = 100
    return _checked(made)


def monitoring_config() -> str:
    """A `MonitoringConfig` in text format: metrics for Prometheus at the REST port."""
    made = messages.message("tensorflow.serving.MonitoringConfig")()
    made.prometheus_config.enable = True
    made.prometheus_config.path = _PROMETHEUS_PATH
    return _checked(made)


def docker_compose(config: ExperimentConfig, models: Sequence[ServedModel], image: str) -> str:
    """A compose file whose server listens at `--serving_host` and the ports of the flags."""
    host = config.serving_host
    host = f"[{host}]" if ":" in host else host
    # Mounts the folder: a mounted file would keep its old content when the file is replaced.
    mounts = [f".:{_CONFIG}:ro"]
    mounts += [
        f"{os.path.abspath(m.path)}:{_base_path(m)}:ro" for m in models if "://" not in m.path
    ]
    service = {
        "image": image,
        "entrypoint": ["tensorflow_model_server"],
        "command": _arguments(config, models),
        "ports": [
            f"{host}:{config.serving_grpc_port}:{_GRPC}",
            f"{host}:{config.serving_rest_port}:{_REST}",
        ],
        # Compose reads a single `$` as the start of a variable.
        "volumes": [mount.replace("$", "$$") for mount in mounts],
        "restart": "unless-stopped",
    }
    return _yaml({"services": {"serving": service}})


def kubernetes(
    config: ExperimentConfig, models: Sequence[ServedModel], image: str, files: dict[str, str]
) -> str:
    """A ConfigMap of the other files, a Deployment and a Service.

    The server reads versions from the PersistentVolumeClaim `serving-models`, which has a folder
    for each model. A pod is ready when each model has a version, which may take ten minutes after
    the start. A pod is alive while gRPC answers. TensorFlow Serving's health service says SERVING
    once the port is open, whatever the state of the models, so the readiness probe asks for the
    models.
    """
    labels = {"app": "serving"}
    ready = {"exec": {"command": ["bash", "-c", readiness(models)]}, "timeoutSeconds": 5}
    memory = memory_mib(models)
    container = {
        "name": "serving",
        "image": image,
        "command": ["tensorflow_model_server"],
        "args": _arguments(config, models),
        "ports": [
            {"name": "grpc", "containerPort": _GRPC},
            {"name": "rest", "containerPort": _REST},
        ],
        "resources": {
            "requests": {"cpu": "1", "memory": f"{memory}Mi"},
            "limits": {"memory": f"{2 * memory}Mi"},
        },
        "startupProbe": {**ready, "periodSeconds": 5, "failureThreshold": 120},
        "readinessProbe": {**ready, "periodSeconds": 5},
        "livenessProbe": {"grpc": {"port": _GRPC}, "timeoutSeconds": 5, "periodSeconds": 10},
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(_LAME_DUCK_SECS)]}}},
        "volumeMounts": [
            {"name": "config", "mountPath": _CONFIG, "readOnly": True},
            {"name": "models", "mountPath": _MODELS, "readOnly": True},
        ],
    }
    volumes = [
        {"name": "config", "configMap": {"name": "serving-config"}},
        {"name": "models", "persistentVolumeClaim": {"claimName": "serving-models"}},
    ]
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(_REST),
        "prometheus.io/path": _PROMETHEUS_PATH,
    }
    documents = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "serving-config"},
            "data": dict(sorted(files.items())),
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "serving", "labels": labels},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": annotations},
                    "spec": {
                        "terminationGracePeriodSeconds": _LAME_DUCK_SECS + 50,
                        "containers": [container],
                        "volumes": volumes,
                    },
                },
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "serving"},
            "spec": {
                "selector": labels,
                "ports": [
                    {"name": "grpc", "port": _GRPC, "targetPort": "grpc"},
                    {"name": "rest", "port": _REST, "targetPort": "rest"},
                ],
            },
        },
    ]
    return "---\n".join(map(_yaml, documents))


def readiness(models: Sequence[ServedModel]) -> str:
    """A bash script that fails unless all models answer. The image contains bash.

    An `httpGet` probe can request only one path. A model has metadata once it has a live version;
    it has a status before that.
    """
    names = " ".join(model.name for model in models)
    return (
        f"for model in {names}; do\n"
        f"  exec 3<>/dev/tcp/127.0.0.1/{_REST} || exit 1\n"
        '  printf "GET /v1/models/$model/metadata HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n" >&3\n'
        "  read -r version status rest <&3\n"
        "  exec 3>&-\n"
        '  [ "$status" = 200 ] || { echo "$model: $status"; exit 1; }\n'
        "done\n"
    )


def memory_mib(models: Sequence[ServedModel]) -> int:
    """An estimate of a server's memory: each model twice, because versions overlap."""
    return _SERVER_MIB + 2 * sum(map(_model_mib, models))


def _model_mib(model: ServedModel) -> int:
    """The memory of the served versions, estimated by the size of the newest one."""
    if "://" in model.path or not os.path.isdir(model.path):
        return _MODEL_MIB
    numbers = [name for name in os.listdir(model.path) if name.isascii() and name.isdigit()]
    if not numbers:
        return _MODEL_MIB
    size = 0
    for folder, _, names in os.walk(os.path.join(model.path, max(numbers, key=int))):
        size += sum(os.path.getsize(os.path.join(folder, name)) for name in names)
    count = {"latest": model.latest, "all": len(numbers)}.get(model.policy, len(model.specific))
    return max(count, 1) * -(-size // 2**20)


def _arguments(config: ExperimentConfig, models: Sequence[ServedModel]) -> list[str]:
    arguments = [
        f"--port={_GRPC}",
        f"--rest_api_port={_REST}",
        "--enable_grpc_healthcheck_service=true",
        f"--model_config_file={_CONFIG}/models.config",
        "--model_config_file_poll_wait_seconds=60",
        "--file_system_poll_wait_seconds=1",
        f"--monitoring_config_file={_CONFIG}/monitoring.config",
    ]
    if config.serving_batch_rows:
        arguments += [
            "--enable_batching=true",
            f"--batching_parameters_file={_CONFIG}/batching_parameters.txt",
        ]
    if any(model.labels for model in models):
        # Otherwise a starting server refuses the labels, because it has no versions yet.
        arguments.append("--allow_version_labels_for_unavailable_models=true")
    return arguments


def _base_path(model: ServedModel) -> str:
    return model.path if "://" in model.path else f"{_MODELS}/{model.name}"


def _policy_text(model: ServedModel) -> str:
    labels = "".join(f", {name} is {v}" for name, v in sorted(model.labels.items()))
    if model.policy == "latest":
        return f"the latest {model.latest} versions{labels}"
    if model.policy == "all":
        return f"all versions{labels}"
    return f"the versions {', '.join(map(str, sorted(model.specific)))}{labels}"


def _missing_versions(model: ServedModel) -> list[str]:
    """The versions of a model that do not exist yet. Does not look at remote folders."""
    if "://" in model.path:
        return []
    if not os.path.isdir(model.path):
        return [f"{model.name}: the folder {model.path} does not exist"]
    names = os.listdir(model.path)
    found = {name.lstrip("0") or "0" for name in names if name.isascii() and name.isdigit()}
    if not found:
        return [f"{model.name}: {model.path} has no version"]
    wanted = sorted({*model.specific, *model.labels.values()})
    gone = [str(version) for version in wanted if str(version) not in found]
    return [f"{model.name}: {model.path} has no version {', '.join(gone)}"] if gone else []


def _checked(message: Any) -> str:
    text = text_format.MessageToString(message)
    again = text_format.Parse(text, type(message)())
    assert again == message, text
    return text


class _Dumper(yaml.SafeDumper):
    """Writes long texts as blocks, and never uses YAML anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _yaml(document: Any) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, default_flow_style=False)


def _missing(error: Exception) -> MissingPackageError:
    return MissingPackageError(
        f"--mode=serving_config needs the package tensorflow-serving-api ({error}). Install it "
        "with `pip install 'estimator-kit[serving]'`."
    )
