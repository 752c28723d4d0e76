"""The output folder: its owner, its finished shards, its manifest, and `_SUCCESS` at the end.

    _PLAN.json          what the work does; written first, and compared at every start
    train-00000-of-00012.tfrecord ...       shards; each gets its name when it is complete
    _MANIFEST.json      rows, bytes and CRC-32 of every shard, the features, files, and spec
    _SUCCESS            empty; written last
    _unfinished/        unfinished shards and rows, and notes about finished shards; removed at the
                        end

A folder that has any other files, or the plan of other work, is not changed. The work is a
conversion, or other work that makes files from files: `estimator_kit.scoring` also uses this class.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from feature_specs.files import file_systems, staged
from input_pipelines.prepare.convert import shard_files
from input_pipelines.prepare.convert.shard_files import Written

PLAN, MANIFEST, SUCCESS, UNFINISHED = "_PLAN.json", "_MANIFEST.json", "_SUCCESS", "_unfinished"

# The names of the entries of a plan in messages about differences.
CALLED = {
    "version": "the form of the plan",
    "record": "the kind of record",
    "spec": "the feature spec",
    "files": "the files that are converted",
    "csv": "how CSV is written",
    "options": "the flags",
    "features": "the features",
    "shards": "the shards",
}


class FolderError(ValueError):
    """The folder has files that this work did not write. Nothing was changed."""


class Named(Protocol):
    """A file to write. The folder identifies it by its name."""

    @property
    def name(self) -> str: ...


class Plan(Protocol):
    """The files that will be written into a folder."""

    @property
    def shards(self) -> Sequence[Named]:
        """All files to write, in order."""

    def document(self) -> dict[str, Any]:
        """The plan as JSON. Two plans with the same document write the same files.

        The entry `code` is a digest of the code that writes them.
        """

    def manifest(
        self, document: Mapping[str, Any], written: Mapping[str, Written]
    ) -> dict[str, Any]:
        """The manifest: the document, with each file as `Written` under `shards`."""


_Shard = TypeVar("_Shard", bound=Named)


class Output:
    """The folder of a conversion, or of other work with a `Plan`."""

    def __init__(
        self,
        folder: str,
        plan: Plan,
        *,
        noun: str = "conversion",
        called: Mapping[str, str] = CALLED,
    ):
        """A folder.

        Args:
          folder: its path.
          plan: the files to write.
          noun: the name of the work in errors.
          called: the entries of the plan's document that must be the same at every start, with
            their names in errors.
        """
        self.folder = folder
        self._noun = noun
        self._called = called
        self.temporary = os.path.join(folder, UNFINISHED)
        self._plan = plan
        self._document = plan.document()
        self._replaces = False
        self._is_of_other_code = False

    def check(self) -> None:
        """Raises FolderError unless the folder is new, empty, or from the same work.

        A folder in which other work has not finished any shard is also accepted. Another version of
        the kit may have written a finished folder, but must not go on with an unfinished one: it
        may divide the rows in another way, and then rows are lost or written twice.
        """
        check_new(self.folder, noun=self._noun)
        text = file_systems.read(self._path(PLAN))
        if text is None:
            return
        try:
            before = json.loads(text)
            different = [key for key in self._called if before[key] != self._document[key]]
            if different != ["shards"]:  # The shards follow from the other entries.
                different = [key for key in different if key != "shards"]
            self._is_of_other_code = before.get("code") != self._document["code"]
        except (ValueError, KeyError, TypeError) as error:
            raise FolderError(
                f"{self._path(PLAN)!r} was not written by a {self._noun}; move it away"
            ) from error
        has_shards = not set(file_systems.names_in(self.folder)) <= {PLAN, UNFINISHED}
        if (different or self._is_of_other_code) and not has_shards:
            # For example, after a bad row in the first shard was corrected. No work is lost.
            self._replaces = True
            self._is_of_other_code = False
            return
        if different in ([], ["shards"]) and not self.is_finished:
            self._check_code()
        if different:
            raise FolderError(
                f"{self.folder!r} holds another {self._noun}, which differs in "
                f"{' and '.join(self._difference(key, before) for key in different[:3])}; name "
                "another folder, or remove this one"
            )
        known = {PLAN, MANIFEST, SUCCESS, UNFINISHED, *(s.name for s in self._plan.shards)}
        for name in file_systems.names_in(self.folder):
            if name not in known:
                raise FolderError(
                    f"{self.folder!r} holds {name!r}, which this {self._noun} did not write; name "
                    "another folder, or move it away"
                )

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Makes the folder, and locks it against other programs.

        This needs a file system with locks. The lock is released when the program ends in any way.

        Raises:
          FolderError: another program is using the folder, or has used it since the last `check`.
        """
        try:
            file_systems.make_folder(self.folder)
        except OSError as error:
            raise file_systems.full_disk(error, self.folder) from error
        with contextlib.ExitStack() as stack:
            if file_systems.is_local(self.folder):
                place = os.open(self.folder, os.O_RDONLY)
                stack.callback(os.close, place)
                try:
                    fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    raise FolderError(
                        f"{self.folder!r} is being written by another program; wait until it has "
                        "finished, or name another folder"
                    ) from error
                except OSError:
                    pass  # This file system has no locks.
            self.check()
            yield

    def begin(self) -> dict[str, Written]:
        """Prepares the folder, and returns the shards that are complete, by name.

        Raises:
          FolderError: the manifest cannot be read, or another version of the kit has not finished
            the folder. Nothing was changed.
        """
        noted = self._noted()
        whole = {
            shard.name: noted[shard.name]
            for shard in self._plan.shards
            if shard.name in noted and shard_files.is_whole(self.folder, noted[shard.name])
        }
        if len(whole) == len(self._plan.shards) and file_systems.exists(self._path(SUCCESS)):
            return whole
        self._check_code()
        try:
            if self._replaces:
                file_systems.remove_folder(self.temporary)
            file_systems.make_folder(self.temporary)
            if self._replaces or not file_systems.exists(self._path(PLAN)):
                self._write(PLAN, self._document)
            for written in whole.values():
                shard_files.note(self.temporary, written)
            for name in (SUCCESS, MANIFEST):
                if file_systems.exists(self._path(name)):
                    file_systems.remove(self._path(name))
        except OSError as error:
            raise file_systems.full_disk(error, self.folder) from error
        return whole

    def _check_code(self) -> None:
        if self._is_of_other_code:
            raise FolderError(
                f"another version of estimator_kit began the {self._noun} in {self.folder!r}, so "
                "its files and new ones may not go together; name an empty folder, or remove this "
                "one"
            )

    @property
    def is_finished(self) -> bool:
        return file_systems.exists(self._path(SUCCESS))

    def finish(self, written: Mapping[str, Written]) -> None:
        """Writes the manifest, removes temporary files, and writes `_SUCCESS`."""
        try:
            self._write(MANIFEST, self._plan.manifest(self._document, written))
            file_systems.remove_folder(self.temporary)
            with file_systems.open_file(self._path(SUCCESS), "wb") as file:
                file.write(b"")
        except OSError as error:
            raise file_systems.full_disk(error, self.folder) from error

    def _noted(self) -> dict[str, Written]:
        found = shard_files.noted(self.temporary)
        text = file_systems.read(self._path(MANIFEST))
        if text is None:
            return found
        try:
            for entry in json.loads(text)["shards"]:
                values = {field.name: entry[field.name] for field in dataclasses.fields(Written)}
                found.setdefault(entry["name"], Written(**values))
        except (ValueError, KeyError, TypeError) as error:
            raise FolderError(
                f"{self._path(MANIFEST)!r} was not written by a {self._noun}; move it away, and "
                "the files are written again"
            ) from error
        return found

    def _write(self, name: str, document: Any) -> None:
        content = (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()
        staged.write(self._path(name), content, within=self.temporary, durable=True)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _difference(self, key: str, before: Any) -> str:
        """The name of an entry that differs, and both values if they are short."""
        old, new = before[key], self._document[key]
        called = self._called[key]
        if key == "spec" and old is not None and new is not None:
            return called
        if key == "files":
            old, new = ([file["path"] for file in files] for files in (old, new))
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


def check_new(folder: str, *, noun: str = "conversion") -> None:
    """Raises FolderError if a folder has files but no plan.

    This needs no plan, so it can be called before the input files are read.
    """
    if file_systems.exists(folder) and not file_systems.is_folder(folder):
        raise FolderError(f"{folder!r} is not a folder; name another one")
    names = [name for name in file_systems.names_in(folder) if name != UNFINISHED]
    if names and PLAN not in names:
        raise FolderError(
            f"{folder!r} holds {names[0]!r} and no {PLAN}, so no {noun} wrote it; name "
            "another folder, or move it away"
        )


def missing(shards: Sequence[_Shard], whole: Mapping[str, Written]) -> list[_Shard]:
    """The shards that must still be written."""
    return [shard for shard in shards if shard.name not in whole]
