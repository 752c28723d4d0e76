"""The analysis folder: all files are written, or none; other people's files are never overwritten.

`manifest.json` in the folder lists the SHA-256 of every file that analysis wrote. If the folder has
another file, or a listed file has changed, someone has edited it, and the folder is not changed. A
new folder is written under a temporary name and then renamed. In an existing folder, all files are
written under temporary names before the first one is renamed. The manifest first lists both the old
and the new state, so that files do not look edited after a crash. Two analyses into one folder wait
for each other, and the later one stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Union

from feature_specs.files import locks, staged

MANIFEST = "manifest.json"
_TEMPORARY = ".tmp-"


class FolderError(ValueError):
    """The folder has files that analysis did not write. Nothing was changed."""


def check(folder: pathlib.Path) -> None:
    """Raises FolderError if the folder has files that analysis did not write or that changed."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FolderError(f"{str(folder)!r} is not a folder; name another one")
    known = _known(folder)
    for name in _files(folder):
        if name not in known:
            raise FolderError(
                f"{str(folder)!r} holds {name!r}, which analysis did not write; "
                "name another folder, or move the file away"
            )
        if _digest((folder / name).read_bytes()) not in known[name]:
            raise FolderError(
                f"{str(folder / name)!r} was changed since analysis wrote it; name another "
                "folder, move the file away, or use --spec to refresh only the spec's files"
            )


def publish(folder: pathlib.Path, files: Mapping[str, str]) -> None:
    """Writes these texts, by path in the folder, and the manifest. Removes older files.

    Raises:
      FolderError: see `check`.
    """
    new = {name: [_digest(text.encode())] for name, text in files.items()}
    if not folder.exists() and _new(folder, {**files, MANIFEST: _manifest_text(new)}):
        return
    with locks.held(str(folder), wait=True):
        check(folder)
        before = _known(folder)
        both = {name: before.get(name, []) + new.get(name, []) for name in {**before, **new}}
        with contextlib.ExitStack() as stack:
            for name, text in files.items():
                _write(stack.enter_context(staged.file(str(folder / name))), text)
            replace(folder / MANIFEST, _manifest_text(both))
        for name in before:
            if name not in files:
                (folder / name).unlink(missing_ok=True)
        replace(folder / MANIFEST, _manifest_text(new))


def _new(folder: pathlib.Path, files: Mapping[str, str]) -> bool:
    """Makes a folder with these files. False if another analysis has made it in the meantime."""
    try:
        with staged.folder(str(folder)) as temporary:
            for name, text in files.items():
                (pathlib.Path(temporary) / name).parent.mkdir(parents=True, exist_ok=True)
                _write(pathlib.Path(temporary) / name, text)
    except OSError:
        if not folder.exists():
            raise
        return False
    return True


def admit(folder: pathlib.Path, files: Mapping[str, str]) -> None:
    """Adds refreshed files to the folder's manifest, if it has one."""
    if (folder / MANIFEST).exists():
        digests = {name: [_digest(text.encode())] for name, text in files.items()}
        replace(folder / MANIFEST, _manifest_text({**_known(folder), **digests}))


def replace(path: pathlib.Path, text: str) -> None:
    """Writes one file that appears whole; see `staged`."""
    with staged.file(str(path)) as temporary:
        _write(temporary, text)


def _write(path: Union[str, pathlib.Path], text: str) -> None:
    pathlib.Path(path).write_bytes(text.encode())


def _files(folder: pathlib.Path) -> list[str]:
    """The files in a folder, without the manifest and temporary files of a crash."""
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MANIFEST and not path.name.startswith(_TEMPORARY)
    )


def _known(folder: pathlib.Path) -> dict[str, list[str]]:
    path = folder / MANIFEST
    if not path.exists():
        return {}
    try:
        files = json.loads(path.read_text(encoding="utf-8"))["files"]
        return {str(name): list(map(str, digests)) for name, digests in files.items()}
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise FolderError(f"{str(path)!r} was not written by analysis; move it away") from error


def _manifest_text(files: Mapping[str, list[str]]) -> str:
    document = {"version": 1, "files": {name: files[name] for name in sorted(files)}}
    return json.dumps(document, indent=1) + "\n"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
