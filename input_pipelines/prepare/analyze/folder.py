"""The analysis folder: all files are written, or none; other people's files are never overwritten.

`manifest.json` in the folder lists the SHA-256 of every file that analysis wrote. If the folder has
another file, or a listed file has changed, someone has edited it, and the folder is not changed.
Folders in it that a conversion or a training made do not count. A
new folder is written under a temporary name and then renamed. In an existing folder, all files are
written under temporary names before the first one is renamed. The manifest first lists both the old
and the new state, so that files do not look edited after a crash. Two analyses into one folder wait
for each other, and the later one stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
from collections.abc import Collection, Iterator, Mapping

from feature_specs.files import documents, locks, staged, urls
from feature_specs.files.jobs import FolderError as FolderError

MANIFEST = "manifest.json"

# A folder with one of these files is from a conversion or a training.
_OF_OTHERS = ("_PLAN.json", "_MANIFEST.json", "versions.json")


class Manifest(documents.Document):
    """The SHA-256 of each file; while files are replaced, of the old and of the new one."""

    sort_keys = False
    indent = 1

    version: int = 1
    files: dict[str, list[str]]


def check(folder: pathlib.Path) -> None:
    """Raises FolderError if the folder has files that analysis did not write or that changed."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FolderError(f"{str(folder)!r} is not a folder; name another one")
    listed = _listed_files(folder)
    for name in _files(folder):
        if name not in listed:
            raise FolderError(
                f"{str(folder)!r} holds {name!r}, which analysis did not write; "
                "name another folder, or move the file away"
            )
        if _digest((folder / name).read_bytes()) not in listed[name]:
            raise FolderError(
                f"{str(folder / name)!r} was changed since analysis wrote it; name another "
                "folder, move the file away, or use --spec to refresh only the spec's files"
            )


def publish(folder: pathlib.Path, files: Mapping[str, str], *, keep: Collection[str] = ()) -> None:
    """Writes these texts, by path in the folder, and the manifest. Removes older files.

    Args:
      folder: the analysis folder.
      files: the texts.
      keep: older files that stay.

    Raises:
      FolderError: see `check`.
    """
    new = _digests(files)
    if not folder.exists():
        try:
            with staged.folder(str(folder)) as temporary:
                for name, text in {**files, MANIFEST: _manifest(new).as_text()}.items():
                    documents.write_text(f"{temporary}/{name}", text)
            return
        except OSError:
            if not folder.exists():  # Otherwise another analysis has just made it.
                raise
    with locks.held(str(folder), wait=True):
        check(folder)
        before = _listed_files(folder)
        new = {**{name: before[name] for name in keep if name in before}, **new}
        with _replaced(folder, files):
            _save(folder, _both(before, new))
        for name in before:
            if name not in new:
                (folder / name).unlink(missing_ok=True)
        _save(folder, new)


def refresh(folder: pathlib.Path, files: Mapping[str, str]) -> None:
    """Replaces these files, by path in the folder, and lists them if it has a manifest."""
    new = _digests(files)
    with locks.held(str(folder), wait=True):
        before, has_manifest = _listed_files(folder), (folder / MANIFEST).exists()
        with _replaced(folder, files):
            if has_manifest:
                _save(folder, _both(before, new))
        if has_manifest:
            _save(folder, {**before, **new})


@contextlib.contextmanager
def _replaced(folder: pathlib.Path, files: Mapping[str, str]) -> Iterator[None]:
    """Writes these files under temporary names, and renames all of them at the end."""
    with contextlib.ExitStack() as stack:
        for name, text in files.items():
            temporary = stack.enter_context(staged.file(str(folder / name)))
            pathlib.Path(temporary).write_bytes(urls.shown(text).encode())
        yield


def _both(before: Mapping[str, list[str]], new: Mapping[str, list[str]]) -> Mapping[str, list[str]]:
    return {name: before.get(name, []) + new.get(name, []) for name in {**before, **new}}


def _files(folder: pathlib.Path) -> list[str]:
    """The files of an analysis in a folder, without the manifest and leftovers of a crash."""
    others = {
        entry
        for entry in folder.iterdir()
        if entry.is_dir() and any((entry / name).exists() for name in _OF_OTHERS)
    }
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file()
        and path.name != MANIFEST
        and not path.name.startswith(staged.TEMPORARY)
        and others.isdisjoint(path.parents)
    )


def _listed_files(folder: pathlib.Path) -> dict[str, list[str]]:
    manifest = Manifest.load(str(folder / MANIFEST))
    return {} if manifest is None else manifest.files


def _manifest(files: Mapping[str, list[str]]) -> Manifest:
    return Manifest(version=1, files={name: files[name] for name in sorted(files)})


def _save(folder: pathlib.Path, files: Mapping[str, list[str]]) -> None:
    _manifest(files).save(str(folder / MANIFEST))


def _digests(files: Mapping[str, str]) -> dict[str, list[str]]:
    return {name: [_digest(urls.shown(text).encode())] for name, text in files.items()}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
