"""Settings that name places in stores: the run works on local copies of them.

    with in_stores.copied(config) as config:      # No setting has a URL any more.
        ...

Each setting declares what it may name in a store (`InStore`). What is read is fetched: a file or
folder before the run, the files of a pattern when it is expanded. A folder that belongs to the run
is held, fetched, and put back while the run works, at the end also after an error; see
`feature_specs.files.copies`. Modes that only look see the model directory as it is at their start,
and put what they add, such as a report.

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

import yaml

from estimator_kit.config.areas.base import InStore, in_store_of
from estimator_kit.config.areas.program import TRAINING_MODES
from estimator_kit.config.cluster import view_of
from estimator_kit.config.experiment_config import ExperimentConfig
from estimator_kit.config.modes import MODES, settings_of
from estimator_kit.errors import ConfigError
from feature_specs.files import copies, file_systems, stores

# The name of an evaluation set before its pattern.
_SET = re.compile(r"[a-z][a-z0-9_]*=(?=[a-z0-9]+://)")

# `s3:/ads` and `s3//ads` would be local folders.
_ALMOST_URL = re.compile(rf"({'|'.join(stores.VARIABLES)})(?::/(?!/)|//)/*(.*)")

_FLAGFILE = re.compile("--?flagfile=")

# Keys of a spec whose values are files in its folder.
_FILE_KEY = re.compile("(^|_)(file|vocabulary|statistics|checkpoint)$")

# The folder of the copies, for the processes of a search.
_OF_SEARCH = "ESTIMATOR_KIT_COPIES"

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
    _check_spelling(config)
    urls = {name: value for name, value in config if _has_url(value)}
    urls = {name: value for name, value in urls.items() if name in settings_of(config.mode)}
    urls = {name: value for name, value in urls.items() if not _stays(config, name)}
    if not urls:
        yield config
        return
    _check(config, urls)
    limit = None if config.copies_gib is None else int(config.copies_gib * 2**30)
    # A trial of a search works in the folders that the search holds.
    root = os.environ.get(_OF_SEARCH)
    with (
        copies.used(root or _root(config.copies_dir), limit=limit),
        contextlib.ExitStack() as stack,
    ):
        local = {name: _local(value) for name, value in urls.items()}
        kinds = {name: in_store_of(type(config), name) for name in urls}
        if config.mode in _LOOKING and "model_dir" in urls:
            kinds["model_dir"] = InStore.READ
        for name, kind in kinds.items():
            if name == "spec":
                _fetch_spec(local[name])
            elif kind is InStore.READ:
                local[name] = stack.enter_context(copies.snapshot(local[name]))
        if root is None:
            held = [local[name] for name, kind in kinds.items() if kind is InStore.FOLDER]
            stack.enter_context(copies.folders(held))
            if held:
                os.environ[_OF_SEARCH] = _root(config.copies_dir)
                stack.callback(os.environ.pop, _OF_SEARCH, None)
        yield config.model_copy(update=local)


@contextlib.contextmanager
def local_flagfiles(arguments: Sequence[str]) -> Iterator[list[str]]:
    """The arguments with local copies of the flagfiles that are in stores.

    Raises:
      ConfigError: a store has no object of this name.
    """
    joined: list[str] = []
    for each in arguments:
        if joined and joined[-1].lstrip("-") == "flagfile" and joined[-1].startswith("-"):
            joined[-1] = f"--flagfile={each}"
        else:
            joined.append(each)
    names = [each.partition("=")[2] if _FLAGFILE.match(each) else "" for each in joined]
    if not any(map(stores.is_url, names)):
        yield list(arguments)
        return
    given = [each.partition("=")[2] for each in joined if each.startswith("--copies_dir=")]
    with copies.used(_root(given[-1] if given else None)):
        for place, name in enumerate(names):
            if stores.is_url(name):
                path = copies.local(name)
                if not copies.fetched(path):
                    raise ConfigError(f"--flagfile: {name} does not exist. Check its name")
                joined[place] = f"--flagfile={path}"
        yield joined


def _root(folder: Optional[str]) -> str:
    return os.path.expanduser(folder) if folder else file_systems.user_cache("copies")


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


def _check_spelling(config: ExperimentConfig) -> None:
    for name, value in config:
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and in_store_of(type(config), name) is not None:
                typed = _ALMOST_URL.match(_SET.sub("", text))
                if typed is not None:
                    raise ConfigError(
                        f"--{name}: got {text!r}, expected a path or a URL. Did you mean "
                        f"{typed[1]}://{typed[2]}?"
                    )


def _fetch_spec(path: str) -> None:
    """Fetches a spec, the files that it names, and the statistics in its folder."""
    if not copies.fetched(path):
        raise ConfigError(f"--spec: {copies.url(path)} does not exist. Check its name")
    folder = os.path.dirname(path)
    for name in sorted({"statistics.json", *_files_in(_content_of(path))}):
        inner = os.path.normpath(os.path.join(folder, name))
        if inner.startswith(f"{folder}/") and not copies.fetched(inner):
            copies.matches(f"{inner}.*")  # A checkpoint.


def _content_of(path: str) -> Any:
    """The content of a spec, as far as it can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return yaml.safe_load(file)
    except (yaml.YAMLError, UnicodeDecodeError):
        return None  # The parser says what is wrong.


def _files_in(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _files_in(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _files_in(inner, key)
    elif isinstance(value, str) and _FILE_KEY.search(key):
        yield value
