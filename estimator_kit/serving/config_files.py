"""`--serving_config_dir`: writes the files to start TensorFlow Serving with.

    models.config              models, version policies, labels      ModelServerConfig
    batching_parameters.txt    how requests share batches             BatchingParameters
    monitoring.config          metrics for Prometheus                 MonitoringConfig

They are text protocol buffers. Each one is parsed again before it is written. The first is an
official message. No package has the messages of the other two, so `estimator_kit.client.messages`
makes them. This module starts nothing, and never loads a model. `examples/serving` starts a server
with these files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import metadata
from typing import Any, Optional

from google.protobuf import text_format

from estimator_kit.client import messages
from estimator_kit.client.base import BATCH_ROWS
from estimator_kit.config.areas.serving import ServedModel, Serving, served_models
from feature_specs.files import documents, staged
from input_pipelines.errors import MissingPackageError

_HEAD = "# Written by estimator-kit serve; the next run overwrites it.\n"
_MODELS, _CONFIG = "/models", "/config"

_PROMETHEUS_PATH = "/monitoring/prometheus/metrics"

# How long a request waits for others to share a batch with.
_BATCH_TIMEOUT_MICROS = 1000


def write(serving: Serving) -> str:
    """Writes the files to `--serving_config_dir`; returns the summary for the user.

    Raises:
      ConfigError: the folder cannot be written.
      MissingPackageError: the extra `serving` is not installed, or TensorFlow has no file system
        for the folder.
    """
    folder = serving.serving_config_dir
    assert folder is not None, "without it, --mode=serve serves"
    staged.check_writable(folder, flag="--serving_config_dir")
    models = served_models(serving)
    files = {
        "models.config": models_config(models),
        "monitoring.config": monitoring_config(),
    }
    reason = reason_against_splitting(models)
    if serving.serving_batch_rows:
        parameters = batching_parameters(serving, splits=reason is None)
        files["batching_parameters.txt"] = parameters
    for name, text in sorted(files.items()):
        documents.write_text(os.path.join(folder, name), _HEAD + text)
    lines = [f"wrote to {folder}: {', '.join(sorted(files))}", f"  image: {default_image()}"]
    for model in models:
        lines.append(f"  {model.name}: {model.path}, {_policy_text(model)}")
        lines += [f"  warning: {text}" for text in _missing_versions(model)]
    if serving.serving_batch_rows and reason is not None:
        rows = max(serving.serving_batch_rows, BATCH_ROWS)
        lines.append(f"  batches of up to {rows} rows, without splitting requests: {reason}")
    lines.append(f"  flags, with {folder} at {_CONFIG}: {' '.join(arguments(serving, models))}")
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

    message = model_server_config_pb2.ModelServerConfig()
    for model in models:
        entry = message.model_config_list.config.add()
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
    return _checked(message)


def batching_parameters(serving: Serving, *, splits: bool) -> str:
    """`BatchingParameters` in text format.

    If the server `splits` requests (see `reason_against_splitting`), the model gets at most
    `--serving_batch_rows` rows at once. Otherwise it gets as many as a request may have.

    `num_batch_threads` keeps its default, the number of cores. `pad_variable_length_inputs` is
    false, because padding a list with its first value would change its meaning.
    """
    message = messages.message("tensorflow.serving.BatchingParameters")()
    # The server refuses larger requests, and the client sends BATCH_ROWS rows.
    message.max_batch_size.value = max(serving.serving_batch_rows, BATCH_ROWS)
    if splits:
        message.enable_large_batch_splitting.value = True
        message.max_execution_batch_size.value = serving.serving_batch_rows
    message.batch_timeout_micros.value = _BATCH_TIMEOUT_MICROS
    message.max_enqueued_batches.value = 100
    return _checked(message)


def reason_against_splitting(models: Sequence[ServedModel]) -> Optional[str]:
    """Why TensorFlow Serving may not split requests into several batches; None if it may.

    With `enable_large_batch_splitting` it fills each batch with parts of requests, and puts the
    answers to the parts together by copying their bytes (`tensor::Concat` in TensorFlow's
    tensor_util.cc). It does not compare their shapes. So an output that is as wide as the widest
    row of its batch, such as `items` of `top_k/<objective>` or the steps of a row, would get wrong
    rows, or end the server.
    """
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


def monitoring_config() -> str:
    """A `MonitoringConfig` in text format: metrics for Prometheus at the REST port."""
    message = messages.message("tensorflow.serving.MonitoringConfig")()
    message.prometheus_config.enable = True
    message.prometheus_config.path = _PROMETHEUS_PATH
    return _checked(message)


def arguments(serving: Serving, models: Sequence[ServedModel]) -> list[str]:
    """The flags of TensorFlow Serving that name the files, with their folder at `/config`."""
    flags = [
        f"--model_config_file={_CONFIG}/models.config",
        f"--monitoring_config_file={_CONFIG}/monitoring.config",
    ]
    if serving.serving_batch_rows:
        flags += [
            "--enable_batching=true",
            f"--batching_parameters_file={_CONFIG}/batching_parameters.txt",
        ]
    if any(model.labels for model in models):
        # Otherwise a starting server refuses the labels, because it has no versions yet.
        flags.append("--allow_version_labels_for_unavailable_models=true")
    return flags


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
    existing = {name.lstrip("0") or "0" for name in names if name.isascii() and name.isdigit()}
    if not existing:
        return [f"{model.name}: {model.path} has no version"]
    wanted = sorted({*model.specific, *model.labels.values()})
    gone = [str(version) for version in wanted if str(version) not in existing]
    return [f"{model.name}: {model.path} has no version {', '.join(gone)}"] if gone else []


def _checked(message: Any) -> str:
    text = text_format.MessageToString(message)
    again = text_format.Parse(text, type(message)())
    assert again == message, text
    result: str = text
    return result


def _missing(error: Exception) -> MissingPackageError:
    return MissingPackageError(
        f"--serving_config_dir needs the package tensorflow-serving-api ({error}). Install it "
        "with `pip install 'estimator-kit[serving]'`."
    )
