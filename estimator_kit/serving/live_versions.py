"""The live versions of a model: finds, loads, checks and replaces them, and closes old ones.

A version becomes live when its folder no longer changes, it loads, and it answers
(`answers.warm_up`). The version before it stays live until then, and is closed after its last
request. A version that fails is not served, and the log says why. It is tried again when its files
change. One thread calls `poll`; any number of threads take leases.
"""

from __future__ import annotations

import dataclasses
import gc
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Optional

import tensorflow as tf

from estimator_kit.config.areas.serving import ServedModel
from estimator_kit.serving import answers
from estimator_kit.serving.errors import RequestError, invalid
from estimator_kit.serving.loaded_model import LoadedModel
from estimator_kit.tensorflow_errors import reason
from feature_specs.errors import did_you_mean
from feature_specs.files import versions as version_folders

_log = logging.getLogger("estimator_kit")

# The number of ended versions whose states are kept.
_ENDED = 20

# The errors of listing files; a name that is not UTF-8 is a ValueError.
_UNREADABLE = (tf.errors.OpError, OSError, ValueError)

# The names, sizes and times of the files of a version.
Fingerprint = tuple[tuple[str, int, int], ...]


@dataclasses.dataclass(frozen=True)
class State:
    """The state of a version: START, LOADING, AVAILABLE, UNLOADING or END, and its error."""

    name: str
    error: str = ""


class _Live:
    """A loaded version, the fingerprint of its files, and the number of requests that use it."""

    def __init__(self, model: LoadedModel, looks: Fingerprint):
        self.model = model
        self.looks = looks
        self.users = 0
        self.retired = False


class Versions:
    """The versions of one model.

    Args:
      served: its name, folder, policy and labels.
      load: makes a `LoadedModel` from a path and a version number.
    """

    def __init__(self, served: ServedModel, load: Callable[[str, int], LoadedModel] = LoadedModel):
        self._served = served
        self._load = load
        self._lock = threading.Lock()
        self._live: dict[int, _Live] = {}
        self._states: dict[int, State] = {}
        self._seen: dict[int, Fingerprint] = {}
        self._failed: dict[int, Fingerprint] = {}
        self._said: dict[Any, str] = {}
        self._closed = 0
        self._ended = False

    @property
    def live(self) -> list[int]:
        """Numbers of the versions that are served, in order."""
        with self._lock:
            return sorted(self._live)

    def states(self) -> dict[int, State]:
        """The states of all known versions, by number."""
        with self._lock:
            return dict(sorted(self._states.items()))

    @contextmanager
    def lease(
        self, version: Optional[int] = None, label: Optional[str] = None
    ) -> Iterator[LoadedModel]:
        """A version for the duration of one request: the newest one, or the given one.

        Raises:
          RequestError: the version is not served.
        """
        if label is not None:
            if label not in self._served.labels:
                hint = did_you_mean(label, self._served.labels)
                raise invalid(f"model {self._served.name!r} has no label {label!r}{hint}")
            version = self._served.labels[label]
        with self._lock:
            number = max(self._live, default=None) if version is None else version
            live = None if number is None else self._live.get(number)
            if live is not None:
                live.users += 1
        if live is None:
            what = "no version" if version is None else f"no version {version}"
            raise RequestError("NOT_FOUND", f"model {self._served.name!r} has {what} that is live")
        try:
            yield live.model
        finally:
            with self._lock:
                live.users -= 1
                is_last = live.retired and not live.users
            if is_last:
                self._close(live)

    def poll(self) -> None:
        """Looks at the folder once: loads good new versions, and closes those they replace."""
        try:
            existing = version_folders.numbers(self._served.path)
        except _UNREADABLE as error:  # A disk may be away for a while.
            self._say("none", f"{self._served.path} cannot be listed: {_one_line(error)}")
            return
        chosen, looked_at = [], set()
        for version in self._served.candidates(existing):
            looked_at.add(version)
            if self._is_good(version):
                chosen.append(version)
            if len(chosen) == self._served.most(existing):
                break
        for version in [v for v in self._seen if v not in existing]:
            for records in (self._seen, self._failed, self._said):
                records.pop(version, None)
        with self._lock:  # Forget versions that are unwanted or gone, and were never loaded.
            for version, state in list(self._states.items()):
                if state.name == "START" and version not in looked_at:
                    del self._states[version]
        if chosen:
            self._retire([version for version in self.live if version not in chosen])
        elif self.live:
            self._say("none", f"no version is left in {self._served.path}. {self._what_stays()}")
        elif all(version in self._failed for version in existing):
            self._say("none", f"{self._served.path} has no version that can be served")
        live = self.live
        for label, version in sorted(self._served.labels.items()):
            if live and version not in live:
                self._say(
                    ("label", label, *live),
                    f"the label {label} means version {version}, which is not served. Live: "
                    f"{', '.join(map(str, live))}",
                )
        if self._closed:
            self._closed = 0
            gc.collect()  # Graphs contain reference cycles.

    def close(self) -> None:
        """Closes all versions. A version that another thread still loads does not become live."""
        with self._lock:
            self._ended = True
        self._retire(self.live)

    def _is_good(self, version: int) -> bool:
        with self._lock:
            live = self._live.get(version)
        if live is not None:
            self._renew(version, live)
            return True
        path = os.path.join(self._served.path, str(version))
        try:
            looks = _fingerprint(path)
        except _UNREADABLE as error:
            return self._refuse(version, f"its files cannot be listed: {_one_line(error)}")
        before, self._seen[version] = self._seen.get(version), looks
        if self._failed.get(version) == looks:
            return False
        if before != looks:
            self._set_state(version, State("START"))
            return False  # It may still be copied; the next poll shows.
        if not _has_graph(looks):
            return self._refuse(version, "it has no saved_model.pb. Is it still being copied?")
        return self._try(version, path, looks)

    def _renew(self, version: int, live: _Live) -> None:
        """Loads a live version again if its files were replaced."""
        path = os.path.join(self._served.path, str(version))
        try:
            looks = _fingerprint(path)
        except _UNREADABLE:  # A live version no longer needs its files.
            return
        before, self._seen[version] = self._seen.get(version), looks
        if looks in (live.looks, self._failed.get(version)):
            return
        # Files that are still being deleted or copied do not count.
        if before == looks and _has_graph(looks) and not self._try(version, path, looks):
            self._set_state(version, State("AVAILABLE"))

    def _try(self, version: int, path: str, looks: Fingerprint) -> bool:
        self._set_state(version, State("LOADING"))
        try:
            model = self._load(path, version)
        except Exception as error:  # A damaged file can cause any error in TensorFlow.
            self._failed[version] = looks
            return self._refuse(version, f"it cannot be loaded: {_one_line(error)}")
        try:
            warmed = answers.warm_up(model)
        except Exception as error:
            model.close()
            self._failed[version] = looks
            return self._refuse(version, f"it does not answer: {_one_line(error)}")
        with self._lock:
            old = self._live.get(version)
            is_late = self._ended
            if not is_late:
                self._live[version] = _Live(model, looks)
            self._failed.pop(version, None)
            if old is not None:
                old.retired = True
            is_unused = old is not None and not old.users
        if is_late:
            model.close()
            return False
        if old is not None and is_unused:
            self._close(old)
        self._set_state(version, State("AVAILABLE"))
        self._said.clear()
        _log.info(
            "model %s: version %d is live (%d warm-up requests)", self._served.name, version, warmed
        )
        return True

    def _refuse(self, version: int, why: str) -> bool:
        self._set_state(version, State("END", why))
        end = "" if why.endswith((".", "?")) else "."
        self._say(version, f"version {version} is not served: {why}{end} {self._what_stays()}")
        return False

    def _what_stays(self) -> str:
        live = self.live
        return f"Version {live[-1]} stays live." if live else "No version is live."

    def _say(self, key: Any, text: str) -> None:
        if self._said.get(key) != text:
            self._said[key] = text
            _log.warning("model %s: %s", self._served.name, text)

    def _retire(self, versions: Sequence[int]) -> None:
        for version in versions:
            with self._lock:
                live = self._live.pop(version, None)
                if live is None:  # Another thread has closed it.
                    continue
                live.retired = True
                unused = not live.users
            self._set_state(version, State("UNLOADING"))
            if unused:
                self._close(live)

    def _close(self, live: _Live) -> None:
        live.model.close()
        self._closed += 1
        with self._lock:
            is_replaced = live.model.version in self._live
        if is_replaced:  # Other files have the same version number.
            return
        self._set_state(live.model.version, State("END"))
        _log.info("model %s: version %d is closed", self._served.name, live.model.version)

    def _set_state(self, version: int, state: State) -> None:
        with self._lock:
            self._states[version] = state
            ended = [v for v, each in sorted(self._states.items()) if each.name == "END"]
            for old in ended[:-_ENDED]:
                del self._states[old]


class Models:
    """All models of a server, by name.

    Attributes:
      after_look: called after each look at a folder, which may have changed `live`.
    """

    def __init__(
        self,
        served: Sequence[ServedModel],
        load: Callable[[str, int], LoadedModel] = LoadedModel,
    ):
        self._models: Mapping[str, Versions] = {s.name: Versions(s, load) for s in served}
        self.after_look: Callable[[], None] = lambda: None

    def poll(self) -> None:
        """Looks at the folder of each model once. Live versions stay live if one of them raises."""
        for name, versions in self._models.items():
            try:
                versions.poll()
            except Exception:
                _log.exception("model %s: its folder could not be read", name)
            self.after_look()

    def lease(self, name: str, version: Optional[int] = None, label: Optional[str] = None) -> Any:
        """`Versions.lease` of the model of that name."""
        return self._of(name).lease(version, label)

    def states(
        self, name: str, version: Optional[int] = None, label: Optional[str] = None
    ) -> dict[int, State]:
        """The states of all versions of a model, or of one version."""
        all_states = self._of(name).states()
        if label is not None:
            with self.lease(name, None, label) as model:
                version = model.version
        wanted = list(all_states) if version is None else [version]
        if not wanted or not all_states.keys() >= set(wanted):
            what = "no version" if version is None else f"no version {version}"
            raise RequestError("NOT_FOUND", f"model {name!r} has {what}")
        return {number: all_states[number] for number in wanted}

    def _of(self, name: str) -> Versions:
        if not name:
            raise invalid("the request names no model")
        if name not in self._models:
            hint = did_you_mean(name, self._models)
            raise RequestError("NOT_FOUND", f"unknown model {name!r}{hint}")
        return self._models[name]

    def live(self) -> dict[str, list[int]]:
        """Numbers of the versions that are served, by model."""
        return {name: versions.live for name, versions in self._models.items()}

    def close(self) -> None:
        """Closes all versions of all models."""
        for versions in self._models.values():
            versions.close()


def _fingerprint(path: str) -> Fingerprint:
    files = []
    for folder, _, names in tf.io.gfile.walk(path):
        for name in names:
            file = os.path.join(folder, name)
            if "://" in path:
                stat = tf.io.gfile.stat(file)
                size, time = int(stat.length), int(stat.mtime_nsec)
            else:  # `tf.io.gfile` has only whole seconds for local files.
                local = os.stat(file)
                size, time = local.st_size, local.st_mtime_ns
            files.append((os.path.relpath(file, path), size, time))
    return tuple(sorted(files))


def _has_graph(looks: Fingerprint) -> bool:
    return any(name in ("saved_model.pb", "saved_model.pbtxt") for name, _, _ in looks)


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {reason(error)}"
