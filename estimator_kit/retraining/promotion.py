"""The serving directory: stages a model, verifies it, and calls `versions.publish`.

No reader sees a partial model.

    serving/
      12/                       a version for TensorFlow Serving; the highest version is live
        assets.extra/retraining.json    its cycle, and the version that was live before it
      .tmp-version-1/           not live yet; TensorFlow Serving ignores names that are not numbers
      .lock                     locked while a process publishes or removes a version
    serving.canary/
      13/                       the canary (`canaries`), which servers have as another model

A new version is copied to a temporary name, checked with real records, and renamed in one step, see
`feature_specs.files.versions`. Its number is above the numbers of all versions that ever existed
(`versions.json` in the model directory stores removed ones) and of all files in the folder. So a
server never takes an old model or a file for the newest version. Canaries have a separate
folder, because servers answer with the highest number in a folder. Both folders share one sequence
of numbers and one lock. A crash at any point leaves only whole versions, and the next start repeats
the interrupted step. The folder must be local or mounted.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Optional

import tensorflow as tf
from pydantic import Field

from estimator_kit.errors import ConfigError, Locked
from estimator_kit.retraining import cycle_files
from feature_specs.files import documents, file_systems, locks, staged, versions

_log = logging.getLogger("estimator_kit")

_CANARIES = ".canary"
_MARK = os.path.join("assets.extra", "retraining.json")
_LOCK = ".lock"

# Errors for a folder that is not writable or cannot be made. Starting again does not help.
_FORBIDDEN = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST}

# The seconds of the first time that datetime cannot express.
_YEAR_10000 = 253_402_300_800

# Takes the path of a model, and raises an error if its answers are wrong.
Verify = Callable[[str], None]


class VersionMark(documents.Document):
    """The file in a version that says whose it is.

    Attributes:
      cycle: the cycle that made the model; None if another program made it.
      rollback_of: the version that it is a copy of, after a rollback.
      parent: the version that was live before it; of a canary, the canary before it.
      token: what identifies it for its cycle; see `cycle_versions`.
      at: when it was published, in seconds since 1970; None if that is not known.
      rejected: the version that monitoring rolled back with this one.
      reason: why it did.
      label: `canary`; None for a version that is or was live.
      canary: the canary that it is a copy of, after `--mode=promote`.
    """

    cycle: Optional[str] = None
    rollback_of: Optional[int] = None
    parent: Optional[int] = None
    token: Optional[str] = None
    at: Optional[float] = Field(None, ge=0, lt=_YEAR_10000)
    rejected: Optional[int] = None
    reason: Optional[str] = None
    label: Optional[str] = None
    canary: Optional[int] = None

    @property
    def source(self) -> Optional[int]:
        """The version that it is a copy of."""
        return self.rollback_of if self.rollback_of is not None else self.canary


class PastVersion(VersionMark):
    """What `versions.json` keeps of a version."""

    version: int


class _PastVersions(documents.Root[list[PastVersion]]):
    """`versions.json`."""


class Version(VersionMark):
    """A version in the serving directory.

    Attributes:
      number: the number of the version, which is also its folder name.
      path: its folder.
    """

    number: int
    path: str

    @property
    def entry(self) -> PastVersion:
        """What `versions.json` keeps of it."""
        return PastVersion(version=self.number, **_fields(self))


def _fields(mark: VersionMark) -> dict[str, Any]:
    """The fields of a mark. Only rollbacks by monitoring and canaries have the last four."""
    rare = ("rejected", "reason", "label", "canary")
    values = {name: getattr(mark, name) for name in VersionMark.model_fields}
    return {k: v for k, v in values.items() if k not in rare or v is not None}


class Serving:
    """A serving directory and its past versions.

    Args:
      folder: the folder that TensorFlow Serving watches. The first promotion makes it.
      model_dir: the folder of `versions.json` and `serving.json`.
      check: called just before a rename makes a model live. It raises an error to prevent that, for
        example if another process has taken over the lock.
      canaries_of: the folder of live versions, if this is the folder of its canaries.
    """

    def __init__(
        self,
        folder: str,
        model_dir: str,
        check_lock: Callable[[], None] = lambda: None,
        *,
        canaries_of: Optional[str] = None,
    ):
        self.folder = folder
        self._canaries_of = canaries_of
        self._check_lock = check_lock
        self._model_dir = model_dir
        self._past_file = os.path.join(model_dir, "versions.json")
        self._warned = False  # That the file system has no locks.

    def versions(self) -> list[Version]:
        """The versions in the folder, the oldest first."""
        return [self.version(number) for number in versions.numbers(self.folder)]

    @property
    def canaries(self) -> Serving:
        """The folder of canaries. Its newest version is the canary."""
        folder = f"{self.folder.rstrip('/')}{_CANARIES}"
        return Serving(folder, self._model_dir, self._check_lock, canaries_of=self.folder)

    @property
    def live(self) -> Optional[Version]:
        """The version that is served, or None before the first one."""
        existing = self.versions()
        return existing[-1] if existing else None

    def past(self) -> list[PastVersion]:
        """All recorded versions with their cycles, including removed ones."""
        file = _PastVersions.load(self._past_file)
        return file.root if file is not None else []

    def clean(self) -> None:
        """Removes remains of a crash, and records versions that are not recorded yet."""
        with self._write_errors():
            versions.remove_left(self.folder)
        self._record_versions()

    def check_writable(self) -> None:
        """Makes the folder, and checks that a version can be written there.

        Raises ConfigError if it cannot.
        """
        with self._write_errors():
            os.makedirs(self.folder, exist_ok=True)
            with versions.unnamed(self.folder):
                pass

    def publish(
        self,
        export: str,
        *,
        cycle: Optional[str],
        verify: Verify,
        rollback_of: Optional[int] = None,
        rejected: Optional[int] = None,
        reason: Optional[str] = None,
        canary: Optional[int] = None,
        token: Optional[str] = None,
        check_live: Callable[[Optional[Version]], None] = lambda live: None,
    ) -> Version:
        """Makes a SavedModel live as the next version.

        Args:
          export: the SavedModel's folder. It is copied.
          cycle: the cycle that made the model.
          verify: raises an error if the answers of the staged model are wrong. Then nothing goes
            live.
          rollback_of: for a rollback, the version of which this is a copy.
          rejected, reason: for a rollback by monitoring, the version that it replaces, and why.
          canary: the canary of which this is a copy.
          token: what identifies the version for its cycle; see `cycle_versions`.
          check_live: takes the live version, or None, and raises an error if the model must not
            replace it. Until the model is live, no other process changes that version.

        Raises:
          ConfigError: the serving directory is not writable.
          Locked: another process publishes a model there.
          OSError: for example, the disk is full. The partial copy is removed.
        """
        with self._locked():
            live = self.live
            check_live(live)
            self._record_versions()  # The parent may be a version of another program.
            mark = VersionMark(
                cycle=cycle,
                rollback_of=rollback_of,
                parent=live.number if live is not None else None,
                token=token,
                at=time.time(),
                label="canary" if self._canaries_of is not None else None,
                canary=canary,
            )
            if rejected is not None:
                mark = mark.model_copy(update={"rejected": rejected, "reason": reason})
            number = self._publish(export, mark, verify)
            self._record_versions()
            return self.version(number)

    def _warn_of_names(self) -> None:
        numbers = {str(number) for number in versions.numbers(self.folder)}
        for name in file_systems.names_in(self.folder):
            if not name.isnumeric() or name in numbers:
                continue
            _log.warning(
                "%s is not a version: expected a folder with a plain number as its name. Remove "
                "it, because a server may take it for a version. The next version gets a larger "
                "number.",
                os.path.join(self.folder, name),
            )

    def _publish(self, export: str, mark: VersionMark, verify: Verify) -> int:
        """Returns the number, above the numbers of all versions that ever existed."""
        self._warn_of_names()
        least = max((entry.version for entry in self.past()), default=0) + 1
        with contextlib.ExitStack() as stack:  # An error of verify is not one of writing.
            with self._write_errors():
                temporary = stack.enter_context(versions.unnamed(self.folder))
                _copy(export, temporary)
                mark.save(os.path.join(temporary, _MARK))
            verify(temporary)
            self._check_lock()
            # Before the rename: after a crash, the next start must find what is live.
            cycle_files.remember_serving_dir(self._canaries_of or self.folder, self._model_dir)
            with self._write_errors():
                path = versions.publish(temporary, self.folder, least=least)
        return int(os.path.basename(path))

    def remove(self, version: Version) -> None:
        """Removes a version that is not live. A reader sees it whole or not at all.

        Raises Locked if another process publishes or removes a model there.
        """
        with self._locked():
            if not os.path.isdir(version.path):
                return  # Another process has removed it.
            live = self.live
            if live is not None and live.number == version.number:
                raise ValueError(f"version {version.number} is live")
            self._record_versions()
            with self._write_errors():
                staged.remove_folder(version.path)

    def find(self, number: int) -> Version:
        """Returns a version by its number.

        Raises:
          ConfigError: the version does not exist. The message lists the existing ones.
        """
        existing = self.versions()
        for version in existing:
            if version.number == number:
                return version
        numbers = ", ".join(str(version.number) for version in existing)
        hint = f"Use one of: {numbers}." if numbers else "It has no version yet."
        raise ConfigError(f"--to={number}: {self.folder} has no version {number}. {hint}")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Makes the folder, and holds its lock. Two model directories may have one folder.

        Canaries have the lock of the live versions, because both have one sequence of numbers.
        """
        with contextlib.ExitStack() as stack:
            try:
                with self._write_errors():
                    os.makedirs(self.folder, exist_ok=True)
                    lock = locks.held(os.path.join(self._canaries_of or self.folder, _LOCK))
                    has_locks = stack.enter_context(lock)
            except locks.Taken as error:
                raise Locked(
                    f"another process is publishing or removing a model in the serving directory "
                    f"{self.folder}. Try again when it has ended."
                ) from error
            if not has_locks and not self._warned:
                _log.warning(
                    "the file system of %s has no locks. Publish there with one --model_dir only.",
                    self.folder,
                )
                self._warned = True
            yield

    @contextlib.contextmanager
    def _write_errors(self) -> Iterator[None]:
        """Turns the errors of a folder that is not writable into a ConfigError."""
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
                f"the serving directory {self.folder} is not writable: {why}. Give the user of "
                "this program the right to write there, or choose another --serving_dir."
            ) from error

    def version(self, number: int, mark: Optional[VersionMark] = None) -> Version:
        """A version of the folder. By default, its mark is read; it may be of another program."""
        path = os.path.join(self.folder, str(number))
        if mark is None:
            with contextlib.suppress(ConfigError):
                mark = VersionMark.load(os.path.join(path, _MARK))
        return Version(number=number, path=path, **_fields(mark or VersionMark()))

    @property
    def _live_versions(self) -> Serving:
        """The folder of live versions, of the folder of canaries."""
        assert self._canaries_of is not None, "only canaries have another folder of live versions"
        return Serving(self._canaries_of, self._model_dir)

    def _record_versions(self) -> None:
        past = self.past()
        recorded = {entry.version for entry in past}
        other = self.canaries if self._canaries_of is None else self._live_versions
        both = sorted([*self.versions(), *other.versions()], key=lambda each: each.number)
        new = [version.entry for version in both if version.number not in recorded]
        if new:
            _PastVersions([*past, *new]).save(self._past_file)


def _copy(source: str, target: str) -> None:
    """Like `shutil.copytree`, but raises the first error itself, with its errno."""

    def fail(error: OSError) -> NoReturn:
        raise error

    for path, _, names in os.walk(source, onerror=fail, followlinks=True):
        into = os.path.normpath(os.path.join(target, os.path.relpath(path, source)))
        os.makedirs(into, exist_ok=True)
        for name in names:
            shutil.copy2(os.path.join(path, name), os.path.join(into, name))
