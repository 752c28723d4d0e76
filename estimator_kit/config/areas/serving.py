"""A server of models, and the files that TensorFlow Serving needs. Imports no TensorFlow."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Optional

from pydantic import Field

from estimator_kit.config.areas.base import Count, PositiveInt, Settings, setting
from estimator_kit.config.areas.program import Program
from feature_specs.files.versions import LARGEST

_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class Serving(Settings):
    """A server of models, and the files that TensorFlow Serving needs."""

    heading: ClassVar[str] = "Serving"

    serving_models: tuple[str, ...] = setting(
        (),
        "The models to serve, each with its name and the folder of its versions: "
        "ads=runs/ads/export/best. Separate models by commas.",
        changes="nothing",
    )
    serving_versions: tuple[str, ...] = setting(
        (),
        "The versions of a model to serve: ads=latest:2, ads=all or ads=5+7. By default the "
        "latest version that loads.",
        changes="nothing",
    )
    serving_labels: tuple[str, ...] = setting(
        (),
        "Labels that requests can use instead of a version: ads:stable=5,ads:canary=7. "
        "--serving_versions must include these versions.",
        changes="nothing",
    )
    serving_host: Annotated[str, Field(min_length=1)] = setting(
        "127.0.0.1",
        "The address to listen on. The server has no authentication and no encryption; with "
        "0.0.0.0 or ::, which both mean all IPv4 and IPv6 addresses, every machine that reaches "
        "this one can send requests.",
        changes="nothing",
    )
    serving_grpc_port: Annotated[int, Field(ge=0, le=65535)] = setting(
        8500,
        "The port for gRPC; 0 takes a free port, and a line of output says which.",
        changes="nothing",
    )
    serving_rest_port: Annotated[int, Field(ge=0, le=65535)] = setting(
        8501,
        "The port for REST; 0 takes a free port, and a line of output says which.",
        changes="nothing",
    )
    serving_config_dir: Optional[str] = setting(
        None,
        "The folder for models.config, batching_parameters.txt and monitoring.config. Existing "
        "files with these names are replaced.",
        changes="nothing",
    )
    serving_batch_rows: Count = setting(
        128,
        "The most rows that TensorFlow Serving joins into one batch; 0 turns batching off. "
        "TensorFlow Serving splits larger requests, up to 1000 rows or this number, and "
        "refuses requests with more rows. If the width of an output differs between batches, or "
        "a model cannot be read, it splits no request, and joins up to 1000 rows or this number. "
        "Requests to predict_raw whose lists differ in width cannot share a batch.",
        changes="nothing",
    )
    serving_log_dir: Optional[str] = setting(
        None,
        "A local folder for logs of answered requests: TFRecord files of PredictionLog, as "
        "TensorFlow Serving writes them, without the features that the spec calls private. Every "
        "served version needs a feature spec, as the exports of the kit have.",
        changes="nothing",
    )
    serving_log_rate: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = setting(
        1.0,
        "The share of requests that --serving_log_dir logs, drawn at random.",
        changes="nothing",
    )
    serving_log_secs: PositiveInt = setting(
        60,
        "Seconds after which a file in --serving_log_dir is complete and gets its name.",
        changes="nothing",
    )
    serving_log_mib: PositiveInt = setting(
        64,
        "MiB after which a file in --serving_log_dir is complete, if that is earlier.",
        changes="nothing",
    )
    serving_log_keep_mib: Count = setting(
        10_240,
        "The most MiB of all files in --serving_log_dir. The server removes the oldest files, and "
        "the log says so. 0 keeps all files.",
        changes="nothing",
    )


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """One model at a server.

    Attributes:
      name: the name that requests use.
      path: the folder of its versions.
      policy: which versions are served: the `latest` ones, `all`, or `specific` ones.
      latest: with the policy `latest`, how many versions are served.
      specific: with the policy `specific`, the versions that are served.
      labels: `{label: version}`.
    """

    name: str
    path: str
    policy: Literal["latest", "all", "specific"] = "latest"
    latest: int = 1
    specific: tuple[int, ...] = ()
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def candidates(self, versions: Sequence[int]) -> list[int]:
        """The versions that may be served, newest first."""
        chosen = [v for v in versions if self.policy != "specific" or v in self.specific]
        return sorted(chosen, reverse=True)

    def most(self, versions: Sequence[int]) -> int:
        """How many versions are served at most."""
        return self.latest if self.policy == "latest" else len(versions)


def served_models(serving: Serving) -> list[ServedModel]:
    """The models that the settings describe.

    Raises:
      ValueError: the settings are wrong; the message has one problem on each line.
    """
    models, problems = _parsed(serving)
    if problems:
        raise ValueError("\n".join(problems))
    return models


def problems(serving: Serving, program: Program) -> list[str]:
    """What is wrong with the settings of serving."""
    lines = _parsed(serving)[1]
    port = serving.serving_grpc_port
    if program.mode == "serve" and port and port == serving.serving_rest_port:
        lines.append(
            f"--serving_grpc_port and --serving_rest_port: expected different ports, got {port} "
            "twice."
        )
    if serving.serving_log_dir is not None and serving.serving_config_dir is not None:
        lines.append(
            "--serving_log_dir and --serving_config_dir: the second only writes files, and no "
            "request is answered. Remove one of them."
        )
    if 0 < serving.serving_log_keep_mib < serving.serving_log_mib:
        lines.append(
            f"--serving_log_keep_mib={serving.serving_log_keep_mib}: expected 0 or at least the "
            f"size of one file, --serving_log_mib={serving.serving_log_mib}."
        )
    return lines


def _parsed(serving: Serving) -> tuple[list[ServedModel], list[str]]:
    problems: list[str] = []
    models: dict[str, ServedModel] = {}
    for entry in serving.serving_models:
        name, equals, path = entry.partition("=")
        # The name becomes part of paths, where `..` would lead to another folder.
        if not equals or not path or not _NAME.fullmatch(name) or name in (".", ".."):
            problems.append(
                "--serving_models: expected name=folder, such as ads=runs/ads/export/best, got "
                f"{entry!r}."
            )
        elif name in models:
            problems.append(f"--serving_models: {name!r} is listed twice. Remove one of them.")
        else:
            models[name] = ServedModel(name, path)
    for entry in serving.serving_versions:
        name, _, text = entry.partition("=")
        policy = _policy(text)
        if policy is None:
            problems.append(
                "--serving_versions: expected model=latest:2, model=all or model=5+7, got "
                f"{entry!r}."
            )
        elif _is_known("--serving_versions", name, models, problems):
            models[name] = dataclasses.replace(models[name], **policy)
    for entry in serving.serving_labels:
        name, label, version = _label(entry)
        if version is None:
            problems.append(
                "--serving_labels: expected model:label=version, such as ads:stable=5, got "
                f"{entry!r}."
            )
        elif _is_known("--serving_labels", name, models, problems):
            if label in models[name].labels:
                problems.append(
                    f"--serving_labels: {name}:{label} is listed twice. Remove one of them."
                )
            labels = {**models[name].labels, label: version}
            models[name] = dataclasses.replace(models[name], labels=labels)
    for model in models.values():
        for label, version in model.labels.items():
            if model.policy == "specific" and version not in model.specific:
                problems.append(
                    f"--serving_labels: {model.name}:{label} is version {version}, which "
                    "--serving_versions leaves out. Add it there."
                )
        labeled = set(model.labels.values())
        if model.policy == "latest" and len(labeled) > model.latest:
            problems.append(
                f"--serving_labels: {model.name} has labels for {len(labeled)} versions, but only "
                f"its latest {model.latest} would be served. Name the versions: --serving_versions="
                f"{model.name}={'+'.join(map(str, sorted(labeled)))}"
            )
    return list(models.values()), problems


def _is_known(flag: str, name: str, models: Mapping[str, ServedModel], problems: list[str]) -> bool:
    if name in models:
        return True
    problems.append(f"{flag}: --serving_models has no model {name!r}. Add it there.")
    return False


def _policy(text: str) -> Optional[dict[str, Any]]:
    if text == "all":
        return {"policy": "all"}
    latest = re.fullmatch(r"latest:([1-9]\d{0,3})", text)
    if latest:
        return {"policy": "latest", "latest": int(latest[1])}
    versions = [_version(part) for part in text.split("+")]
    if None in versions or len(set(versions)) != len(versions):
        return None
    return {"policy": "specific", "specific": tuple(versions)}


def _version(text: str) -> Optional[int]:
    is_version = re.fullmatch(r"0|[1-9]\d{0,18}", text) and int(text) <= LARGEST
    return int(text) if is_version else None


def _label(entry: str) -> tuple[str, str, Optional[int]]:
    match = re.fullmatch(r"([^:=]+):([A-Za-z0-9_.-]+)=(.*)", entry)
    if not match:
        return "", "", None
    return match[1], match[2], _version(match[3])
