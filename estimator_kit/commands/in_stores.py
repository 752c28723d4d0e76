"""Settings that name places in stores: the run works on local copies of them.

    with in_stores.copied(config) as config:      # No setting has a URL any more.
        ...

Each setting declares what it may name in a store (`InStore`). What is read is fetched: a file or
folder before the run, the files of a pattern when it is expanded. A folder that belongs to the run
is held, fetched, and put back while the run works, at the end also after an error; see
`feature_specs.files.copies`. Modes that only look fetch the model directory, and put nothing.

Tasks of a cluster cannot share one local copy of a folder. They leave gs:// to TensorFlow, which
reads and writes it without this module's lock. So do Beam and a data service. Servers read no
store.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from estimator_kit.config.areas.base import InStore, in_store_of
from estimator_kit.config.areas.program import TRAINING_MODES
from estimator_kit.config.cluster import view_of
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import MODES, settings_of
from estimator_kit.errors import ConfigError
from feature_specs.files import copies, stores

_DEFAULT = os.path.join("~", ".cache", "estimator_kit", "copies")

# The name of an evaluation set before its pattern.
_SET = re.compile(r"[a-z][a-z0-9_]*=(?=[a-z0-9]+://)")

# They change nothing in the model directory, so several may read it at the same time.
_LOOKING = {"predict", "evaluate", "inspect", "validate", "report"}


@contextlib.contextmanager
def copied(config: ExperimentConfig) -> Iterator[ExperimentConfig]:
    """A config with local paths. Without a URL, it is the same one, and nothing happens.

    Raises:
      ConfigError: a setting must not name a store, or nothing has the name that it gives.
      Locked: another start works in a folder.
      StoreError: a store cannot be reached.
    """
    urls = {name: value for name, value in config if _has_url(value)}
    urls = {name: value for name, value in urls.items() if name in settings_of(config.mode)}
    urls = {name: value for name, value in urls.items() if not _stays(config, name)}
    if not urls:
        yield config
        return
    _check(config, urls)
    limit = None if config.copies_gib is None else int(config.copies_gib * 2**30)
    with copies.used(_root(config.copies_dir), limit=limit):
        local = {name: _local(value) for name, value in urls.items()}
        kinds = {name: in_store_of(type(config), name) for name in urls}
        if config.mode in _LOOKING and "model_dir" in urls:
            kinds["model_dir"] = InStore.READ
        for name, kind in kinds.items():
            if kind is InStore.READ:
                _fetch(name, local[name])
        with copies.folders([local[n] for n, kind in kinds.items() if kind is InStore.FOLDER]):
            yield config.model_copy(update=local)


@contextlib.contextmanager
def local_flagfiles(arguments: Sequence[str]) -> Iterator[list[str]]:
    """The arguments with local copies of the flagfiles that are in stores."""
    found = [each for each in arguments if each.startswith("--flagfile=") and "://" in each]
    if not found:
        yield list(arguments)
        return
    given = [each.partition("=")[2] for each in arguments if each.startswith("--copies_dir=")]
    with copies.used(_root(given[-1] if given else None)):
        result = []
        for each in arguments:
            flag, _, url = each.partition("=")
            if each in found and stores.is_url(url):
                copies.fetched(copies.local(url))
                each = f"{flag}={copies.local(url)}"
            result.append(each)
        yield result


def _root(folder: Optional[str]) -> str:
    return os.path.expanduser(folder or _DEFAULT)


def _has_url(value: Any) -> bool:
    texts = value if isinstance(value, tuple) else (value,)
    return any(isinstance(text, str) and stores.is_url(_SET.sub("", text)) for text in texts)


def _stays(config: ExperimentConfig, name: str) -> bool:
    """Whether a setting keeps its URL: TensorFlow, Beam or another process reads it, or nobody."""
    if in_store_of(type(config), name) is InStore.FILES:
        return config.mode == "validate" or bool(config.data_service or config.beam_options)
    in_cluster = config.mode in TRAINING_MODES and view_of(config, os.environ) is not None
    return name != "spec" and (in_cluster or bool(config.beam_options))


def _check(config: ExperimentConfig, urls: Mapping[str, Any]) -> None:
    if MODES[config.mode].purpose == "serve" or config.mode == "data_service":
        raise ConfigError(
            f"--mode={config.mode} does not read stores, got --{next(iter(urls))}. Copy the files, "
            "or mount the store."
        )
    for name, value in urls.items():
        if in_store_of(type(config), name) is None:
            raise ConfigError(f"--{name}: got {value!r}, expected a local path, not one in a store")


def _local(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_local, value))
    start = match[0] if (match := _SET.match(value)) else ""
    url = value[len(start) :]
    return start + copies.local(url) if stores.is_url(url) else value


def _fetch(name: str, path: str) -> None:
    copies.fetched(path)
    if name == "spec":  # It names vocabularies in its folder.
        copies.matches(os.path.join(os.path.dirname(path), "*"))
        copies.matches(os.path.join(os.path.dirname(path), "vocabularies", "*"))
