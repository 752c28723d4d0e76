"""The folder of a job, which makes files from files: its owner, shards, manifest and `_SUCCESS`.

    _PLAN.json          what the work does; written first, and compared at every start
    train-00000-of-00012.tfrecord ...       shards; each gets its name when it is complete
    _MANIFEST.json      the plan, with the rows, bytes and CRC-32 of every shard
    _SUCCESS            empty; written last
    _unfinished/        unfinished shards and rows, and notes about finished shards; removed at the
                        end

    job = Job(folder, plan)
    with job.held():
        written = job.begin()
        ...    # Writes the other shards, see `shards`.
        job.finish(manifest)

A folder that has any other files, or the plan of other work, is not changed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import ClassVar, Generic, Optional, TypeVar

from feature_specs.errors import ConfigError, Locked
from feature_specs.files import documents, file_systems, locks, shards, staged
from feature_specs.files.shards import Written

PLAN, MANIFEST, SUCCESS, UNFINISHED = "_PLAN.json", "_MANIFEST.json", "_SUCCESS", "_unfinished"


class FolderError(ConfigError):
    """The folder has files that this work did not write. Nothing was changed."""


class File(documents.Part):
    """A file that the job reads: in a plan with its stamp, in a manifest with its size."""

    path: str
    rows: Optional[int] = None
    stamp: Optional[list[int]] = None
    bytes: Optional[int] = None


class JobDocument(documents.Document):
    """The plan or the manifest of a job."""

    sort_keys = False
    indent = 1
    ascii = False


class Plan(JobDocument):
    """The files that a job will write. The same plan writes the same files.

    Attributes:
      version: the version of the form of the plan.
      code: a digest of the code that writes the files. The first plans had none.
      noun: the name of the work in errors.
      called: the fields that must be the same at every start, with their names in errors.
    """

    noun: ClassVar[str]
    called: ClassVar[Mapping[str, str]]

    version: int
    code: Optional[str] = None

    @property
    def names(self) -> list[str]:
        """The names of all files to write, in order."""
        raise NotImplementedError

    @property
    def paths(self) -> list[str]:
        """The files that are read."""
        raise NotImplementedError


class Manifest(JobDocument):
    """The finished shards. The rest of a manifest depends on the job."""

    shards: list[Written]


_P = TypeVar("_P", bound=Plan)


class Job(Generic[_P]):
    """The folder of a conversion, or of other work with a `Plan`."""

    def __init__(self, folder: str, plan: _P):
        self.folder = folder
        self.temporary = os.path.join(folder, UNFINISHED)
        self.plan = plan
        self._replaces = False
        self._is_of_other_code = False

    def check(self) -> None:
        """Raises FolderError unless the folder is new, empty, or from the same work.

        A folder in which other work has not finished any shard is also accepted. Another version of
        the kit may have written a finished folder, but must not go on with an unfinished one: it
        may divide the rows in another way, and then rows are lost or written twice.

        Raises:
          ConfigError: the plan in the folder cannot be read.
        """
        plan = self.plan
        check_new(self.folder, plan.noun)
        before = type(plan).load(self._path(PLAN))
        if before is None:
            return
        different = [name for name in plan.called if getattr(before, name) != getattr(plan, name)]
        if different != ["shards"]:  # The shards follow from the other fields.
            different = [name for name in different if name != "shards"]
        self._is_of_other_code = before.code != plan.code
        has_shards = not set(_names_in(self.folder)) <= {PLAN, UNFINISHED}
        if (different or self._is_of_other_code) and not has_shards:
            # For example, after a bad row in the first shard was corrected. No work is lost.
            self._replaces = True
            self._is_of_other_code = False
            return
        if different in ([], ["shards"]) and not self.is_finished:
            self._check_code()
        if different:
            raise FolderError(
                f"{self.folder!r} holds another {plan.noun}, which differs in "
                f"{' and '.join(self._difference(name, before) for name in different[:3])}; name "
                "another folder, or remove this one"
            )
        own_names = {PLAN, MANIFEST, SUCCESS, UNFINISHED, *plan.names}
        for name in _names_in(self.folder):
            if name not in own_names:
                raise FolderError(
                    f"{self.folder!r} holds {name!r}, which this {plan.noun} did not write; name "
                    "another folder, or move it away"
                )
            if name != UNFINISHED:
                file_systems.check_is_file(self._path(name))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Makes the folder, and locks it against other programs.

        This needs a file system with locks. The lock is released when the program ends in any way.

        Raises:
          Locked: another program is using the folder.
          FolderError: another program has used the folder since the last `check`.
        """
        with file_systems.writing(self.folder):
            file_systems.make_folder(self.folder)
        with contextlib.ExitStack() as stack:
            if file_systems.is_local(self.folder):
                try:
                    stack.enter_context(locks.held(self.folder))
                except locks.Taken as error:
                    raise Locked(
                        f"{self.folder!r} is being written by another program. Try again when it "
                        "has ended, or name another folder."
                    ) from error
            self.check()
            yield

    def begin(self) -> dict[str, Written]:
        """Prepares the folder, and returns the shards that are complete, by name.

        Raises:
          FolderError: another version of the kit has not finished the folder. Nothing was changed.
          ConfigError: the manifest or a note cannot be read. Nothing was changed.
        """
        manifest = Manifest.load(self._path(MANIFEST))
        recorded = {
            shard.name: shard for shard in (manifest.shards if manifest is not None else ())
        }
        recorded.update((shard.name, shard) for shard in shards.notes_in(self.temporary))
        names = self.plan.names
        complete = {
            n: recorded[n] for n in names if n in recorded and recorded[n].is_whole(self.folder)
        }
        if len(complete) == len(names) and self.is_finished:
            return complete
        self._check_code()
        with file_systems.writing(self.folder):
            if self._replaces:
                file_systems.remove_folder(self.temporary)
            file_systems.make_folder(self.temporary)
            if self._replaces or not file_systems.exists(self._path(PLAN)):
                self._save(self.plan, PLAN)
            for written in complete.values():
                written.note(self.temporary)
            for name in (SUCCESS, MANIFEST):
                if file_systems.exists(self._path(name)):
                    file_systems.remove(self._path(name))
        return complete

    def _check_code(self) -> None:
        if self._is_of_other_code:
            raise FolderError(
                f"another version of estimator_kit began the {self.plan.noun} in {self.folder!r}, "
                "so its files and new ones may not go together; name an empty folder, or remove "
                "this one"
            )

    @property
    def is_finished(self) -> bool:
        return file_systems.exists(self._path(SUCCESS))

    def finish(self, manifest: JobDocument) -> None:
        """Writes the manifest, removes temporary files, and writes `_SUCCESS`."""
        with file_systems.writing(self.folder):
            self._save(manifest, MANIFEST)
            file_systems.remove_folder(self.temporary)
            staged.write(self._path(SUCCESS), b"", durable=True)

    def _save(self, document: JobDocument, name: str) -> None:
        document.save(self._path(name), within=self.temporary, durable=True)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _difference(self, name: str, before: Plan) -> str:
        """The name of a field that differs, and both values if they are short."""
        called = self.plan.called[name]
        old, new = (plan.as_json().get(name) for plan in (before, self.plan))
        if name == "spec" and old is not None and new is not None:
            return called
        if name == "files":
            old, new = before.paths, self.plan.paths
            if old == new:
                return f"{called}, which have changed since then"
        if isinstance(old, dict) and isinstance(new, dict):
            names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
            called += f" ({', '.join(names)})"
            if len(names) == 1:
                old, new = old.get(names[0]), new.get(names[0])
        texts = [json.dumps(value, ensure_ascii=False) for value in (old, new)]
        if max(map(len, texts)) > 100:
            return called
        return f"{called}: {texts[0]} there, {texts[1]} here"


def is_complete(folder: str) -> bool:
    """Whether a job has finished a folder, and its shards still have their sizes."""
    if not file_systems.exists(os.path.join(folder, SUCCESS)):
        return False
    manifest = Manifest.load(os.path.join(folder, MANIFEST))
    return manifest is not None and all(
        file_systems.exists(path) and file_systems.stamp(path)[0] == shard.bytes
        for shard in manifest.shards
        for path in [os.path.join(folder, shard.name)]
    )


def check_new(folder: str, noun: str) -> None:
    """Raises FolderError if a folder has files but no plan.

    This needs no plan, so it can be called before the input files are read.
    """
    if file_systems.exists(folder) and not file_systems.is_folder(folder):
        raise FolderError(f"{folder!r} is not a folder; name another one")
    names = [name for name in _names_in(folder) if name != UNFINISHED]
    if names and PLAN not in names:
        raise FolderError(
            f"{folder!r} holds {names[0]!r} and no {PLAN}, so no {noun} wrote it; name "
            "another folder, or move it away"
        )


def _names_in(folder: str) -> list[str]:
    """The names in a folder, without files that a killed program has not finished."""
    names = file_systems.names_in(folder)
    return [name for name in names if not name.startswith(staged.TEMPORARY)]
