"""The models of `--mode=serve` and `--mode=serving_config` by their flags. No TensorFlow."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Optional

from estimator_kit.config.modes import SERVING_MODES
from estimator_kit.config.settings import AllSettings

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
LARGEST_VERSION = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """One model at a server.

    Attributes:
      name: in requests.
      path: the folder of its versions.
      policy: which are served: `latest` so many, `all`, or the `specific` ones.
      latest: how many are, with `latest`.
      specific: those with `specific`.
      labels: `{label: version}`.
    """

    name: str
    path: str
    policy: Literal["latest", "all", "specific"] = "latest"
    latest: int = 1
    specific: tuple[int, ...] = ()
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def candidates(self, found: Sequence[int]) -> list[int]:
        """Versions that may be served, the newest first."""
        chosen = [v for v in found if self.policy != "specific" or v in self.specific]
        return sorted(chosen, reverse=True)

    def most(self, found: Sequence[int]) -> int:
        """How many of them are, at most."""
        return self.latest if self.policy == "latest" else len(found)


def served_models(config: AllSettings) -> list[ServedModel]:
    """The models that the flags describe.

    Raises:
      ValueError: they do not; the problems, one a line.
    """
    models, problems = _parsed(config)
    if problems:
        raise ValueError("\n".join(problems))
    return models


def problems(config: AllSettings) -> list[str]:
    """What is wrong with the flags of serving."""
    found = _parsed(config)[1]
    if config.mode == "serving_config" and not config.serving_config_dir:
        found.append(
            "--serving_config_dir is missing; --mode=serving_config writes its files there"
        )
    image = config.serving_image
    if image is not None and not re.fullmatch(r"[^\s:]\S*:[\w][\w.-]*(@sha256:\w+)?", image):
        found.append(
            f"--serving_image: got {image!r}, expected an image with its tag, as "
            "tensorflow/serving:2.15.1"
        )
    elif image is not None and image.endswith(":latest"):
        found.append("--serving_image: the tag latest is another image tomorrow; name a release")
    for name in config.serving_allowed_hosts:
        if not re.fullmatch(r"[A-Za-z0-9._-]+|\*", name):
            found.append(
                f"--serving_allowed_hosts: got {name!r}, expected a name without a port, as "
                "models.example.com, or *"
            )
    port = config.serving_grpc_port
    if config.mode in SERVING_MODES and port and port == config.serving_rest_port:
        found.append(f"--serving_grpc_port and --serving_rest_port are both {port}")
    if config.mode == "serving_config" and not (port and config.serving_rest_port):
        found.append("--serving_grpc_port and --serving_rest_port: 0 is for --mode=serve alone")
    return found


def _parsed(config: AllSettings) -> tuple[list[ServedModel], list[str]]:
    problems: list[str] = []
    models: dict[str, ServedModel] = {}
    if config.mode in SERVING_MODES and not config.serving_models:
        problems.append(
            f"--serving_models is missing; --mode={config.mode} needs names and folders of "
            "versions, as ads=runs/ads/export/best"
        )
    for entry in config.serving_models:
        name, equals, path = entry.partition("=")
        # A name is part of paths, in which `..` is another folder.
        if not equals or not path or not _NAME.fullmatch(name) or name in (".", ".."):
            problems.append(
                f"--serving_models: got {entry!r}, expected name=folder, as "
                "ads=runs/ads/export/best"
            )
        elif name in models:
            problems.append(f"--serving_models: {name!r} is there twice")
        else:
            models[name] = ServedModel(name, path)
    for entry in config.serving_versions:
        name, _, text = entry.partition("=")
        policy = _policy(text)
        if policy is None:
            problems.append(
                f"--serving_versions: got {entry!r}, expected model=latest:2, model=all or "
                "model=5+7"
            )
        elif _is_known("--serving_versions", name, models, problems):
            models[name] = dataclasses.replace(models[name], **policy)
    for entry in config.serving_labels:
        name, label, version = _label(entry)
        if version is None:
            problems.append(
                f"--serving_labels: got {entry!r}, expected model:label=version, as ads:stable=5"
            )
        elif _is_known("--serving_labels", name, models, problems):
            if label in models[name].labels:
                problems.append(f"--serving_labels: {name}:{label} is there twice")
            labels = {**models[name].labels, label: version}
            models[name] = dataclasses.replace(models[name], labels=labels)
    for model in models.values():
        for label, version in model.labels.items():
            if model.policy == "specific" and version not in model.specific:
                problems.append(
                    f"--serving_labels: {model.name}:{label} is version {version}, which "
                    "--serving_versions leaves out"
                )
        labelled = set(model.labels.values())
        if model.policy == "latest" and len(labelled) > model.latest:
            problems.append(
                f"--serving_labels: {model.name} has labels of {len(labelled)} versions, and only "
                f"its latest {model.latest} would be served; name them: --serving_versions="
                f"{model.name}={'+'.join(map(str, sorted(labelled)))}"
            )
    return list(models.values()), problems


def _is_known(flag: str, name: str, models: Mapping[str, ServedModel], problems: list[str]) -> bool:
    if name in models:
        return True
    problems.append(f"{flag}: no model {name!r} in --serving_models")
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
    is_version = re.fullmatch(r"0|[1-9]\d{0,18}", text) and int(text) <= LARGEST_VERSION
    return int(text) if is_version else None


def _label(entry: str) -> tuple[str, str, Optional[int]]:
    found = re.fullmatch(r"([^:=]+):([A-Za-z0-9_.-]+)=(.*)", entry)
    if not found:
        return "", "", None
    return found[1], found[2], _version(found[3])
