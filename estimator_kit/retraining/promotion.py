"""The serving directory: models go live by stage, verify, rename; nothing half written is seen.

    serving/
      12/                       a version, as TensorFlow Serving wants it; the highest is live
        assets.extra/retraining.json    which cycle it is of, which version it was made from
      .staging-13/              on its way; TensorFlow Serving ignores names that are no number

A version is copied under a name of its own, asked with real records, and renamed in one step. Its
number is above all that were ever there, also of those that were removed since (`versions.json` in
the model directory) and of files, so that a server never takes an old model, or none, for a new
one. To remove a version it is renamed first. So a crash at any place leaves whole versions, and
what it was at is done again by the next start. Works on local and mounted folders.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Optional

import tensorflow as tf

from estimator_kit import storage
from estimator_kit.config.rules.serving import LARGEST_VERSION
from estimator_kit.errors import ConfigError, Locked

_log = logging.getLogger("estimator_kit")

_MARK = os.path.join("assets.extra", "retraining.json")
_STAGING, _REMOVED = ".staging-", ".removed-"

# Errors of a folder that may not be written to, which no later start mends.
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM}

# Raises when the model at a path does not answer as it should.
Verify = Callable[[str], None]


class _Mark(storage.Form):
    cycle: Optional[str] = None
    rollback_of: Optional[int] = None
    parent: Optional[int] = None


class _Noted(_Mark):
    version: int


@dataclasses.dataclass(frozen=True)
class Version:
    """A version in the serving directory.

    Attributes:
      number: its name.
      path: its folder.
      cycle: whose model it is; None where another program put it there.
      rollback_of: the version that it makes live again.
      parent: the version that was live before it.
    """

    number: int
    path: str
    cycle: Optional[str] = None
    rollback_of: Optional[int] = None
    parent: Optional[int] = None


class Serving:
    """A serving directory, and what is known of its past.

    Args:
      folder: that TensorFlow Serving watches; made by the first promotion.
      model_dir: where `versions.json` is.
      check: is asked just before a rename makes a model live; raises when that may not be, as where
        another process took the lock over.
    """

    def __init__(self, folder: str, model_dir: str, check: Callable[[], None] = lambda: None):
        self.folder = folder
        self._check = check
        self._past = os.path.join(model_dir, "versions.json")

    def versions(self) -> list[Version]:
        """Those that are there, the oldest first."""
        names = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        numbers = sorted(int(n) for n in names if self._is_version(n))
        return [self._version(number) for number in numbers]

    def _is_version(self, name: str) -> bool:
        """Folders alone, of names as this program writes them: `7`, and neither `007` nor `²`."""
        plain = name.isascii() and name.isdigit() and name == str(int(name))
        plain = plain and int(name) <= LARGEST_VERSION
        return plain and os.path.isdir(os.path.join(self.folder, name))

    @property
    def live(self) -> Optional[Version]:
        """The version that is served; None before the first."""
        found = self.versions()
        return found[-1] if found else None

    def past(self) -> list[dict[str, Any]]:
        """All versions there ever were, as far as they were noted, with their cycles."""
        return storage.read_json(self._past, list[_Noted]) or []

    def clean(self) -> None:
        """Removes what a crash has left behind, and notes versions that are not noted yet."""
        if not os.path.isdir(self.folder):
            return
        with self._writing():
            for name in os.listdir(self.folder):
                if name.startswith((_STAGING, _REMOVED)):
                    shutil.rmtree(os.path.join(self.folder, name))
        self._note()

    def publish(
        self,
        export: str,
        *,
        cycle: Optional[str],
        verify: Verify,
        rollback_of: Optional[int] = None,
    ) -> Version:
        """Makes a SavedModel live as the next version.

        Args:
          export: the SavedModel's folder; it stays where it is.
          cycle: whose model it is.
          verify: raises when the staged model does not answer as it should; nothing goes live then.
          rollback_of: the version that it is a copy of.

        Raises:
          ConfigError: the serving directory cannot be written to.
          OSError: as of a full disk; nothing half written is left.
        """
        self.clean()
        before = self.live
        names = os.listdir(self.folder) if os.path.isdir(self.folder) else []
        for name in sorted(n for n in names if n.isnumeric() and not self._is_version(n)):
            _log.warning(
                "%s is no version, since it is no folder or has no plain number for a name; remove "
                "it: a server may take it for one (the next version has a larger number)",
                os.path.join(self.folder, name),
            )
        numbers = [entry["version"] for entry in self.past()]
        # TensorFlow Serving takes the largest number for the newest version, even that of a file.
        taken = [int(name) for name in names if name.isascii() and name.isdigit()]
        numbers += [version for version in taken if version < LARGEST_VERSION]
        number = max([*numbers, *(v.number for v in self.versions())], default=0) + 1
        staging = os.path.join(self.folder, f"{_STAGING}{number}")
        final = os.path.join(self.folder, str(number))
        mark = {
            "cycle": cycle,
            "rollback_of": rollback_of,
            "parent": before.number if before is not None else None,
        }
        try:
            with self._writing():
                os.makedirs(self.folder, exist_ok=True)
                _copy(export, staging)
                storage.write_json(os.path.join(staging, _MARK), mark)
                _sync(staging)
            verify(staging)
            self._check()
            with self._writing():
                os.rename(staging, final)
        except Locked:
            raise  # What is there now may be of the process that took over.
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)  # It may be what fills the disk.
            raise
        _sync_folder(self.folder)
        self._note()
        return self._version(number)

    def remove(self, version: Version) -> None:
        """Removes a version that is not live; a reader sees it whole or not at all."""
        live = self.live
        if live is not None and live.number == version.number:
            raise ValueError(f"version {version.number} is live")
        self._note()
        gone = os.path.join(self.folder, f"{_REMOVED}{version.number}")
        with self._writing():
            os.rename(version.path, gone)
            shutil.rmtree(gone)

    def find(self, number: int) -> Version:
        """A version that is there.

        Raises:
          ConfigError: it is not; the message says which are.
        """
        there = self.versions()
        for version in there:
            if version.number == number:
                return version
        known = ", ".join(str(version.number) for version in there) or "none"
        raise ConfigError(f"--to={number}: {self.folder} has no such version; it has {known}")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Says of a folder that may not be written to that it is so."""
        try:
            yield
        except (OSError, tf.errors.PermissionDeniedError) as error:
            if isinstance(error, OSError):
                if error.errno not in _FORBIDDEN:
                    raise
                why = f"{error.filename or self.folder}: {error.strerror}"
            else:
                why = error.message
            raise ConfigError(
                f"the serving directory {self.folder} cannot be written to: {why}; give the user "
                "of this program the right to, or choose another --serving_dir"
            ) from error

    def _version(self, number: int) -> Version:
        path = os.path.join(self.folder, str(number))
        try:
            with open(os.path.join(path, _MARK), encoding="utf-8") as file:
                text = file.read()
            mark = {} if storage.form_problem(text, _Mark) else json.loads(text)
        except (FileNotFoundError, ValueError):
            mark = {}
        return Version(number, path, mark.get("cycle"), mark.get("rollback_of"), mark.get("parent"))

    def _note(self) -> None:
        past = self.past()
        known = {entry["version"] for entry in past}
        new = [version for version in self.versions() if version.number not in known]
        if not new:
            return
        past += [
            {
                "version": version.number,
                "cycle": version.cycle,
                "rollback_of": version.rollback_of,
                "parent": version.parent,
            }
            for version in new
        ]
        storage.write_json(self._past, past)


def _copy(source: str, target: str) -> None:
    """`shutil.copytree`, but that the first error is raised, with its number, and ends it."""

    def fail(error: OSError) -> NoReturn:
        raise error

    for path, _, names in os.walk(source, onerror=fail, followlinks=True):
        into = os.path.normpath(os.path.join(target, os.path.relpath(path, source)))
        os.makedirs(into)
        for name in names:
            shutil.copy2(os.path.join(path, name), os.path.join(into, name))


def _sync(folder: str) -> None:
    """Brings all files of a folder to the disk, so that no rename gets there before them."""
    for path, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(path, name), "rb") as file:
                os.fsync(file.fileno())
        _sync_folder(path)


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
