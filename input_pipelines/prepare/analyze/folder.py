"""The analysis folder: written whole or not at all, and never over what analysis did not write.

`manifest.json` in the folder lists the SHA-256 of every file that analysis wrote. A folder that
holds another file, or one of these in another state, is somebody's work and is left alone. A new
folder is made beside its place and renamed. In an existing one every file is written under a
temporary name before the first is renamed; the manifest first admits both states, so that a crash
in between does not make the files look changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Mapping

MANIFEST = "manifest.json"
_TEMPORARY = ".tmp-"


class FolderError(ValueError):
    """A folder that holds what analysis did not write; nothing was touched."""


def check(folder: pathlib.Path) -> None:
    """Raises FolderError when the folder holds anything that analysis did not leave there."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FolderError(f"{str(folder)!r} is no folder; name another one")
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
                "folder, move the file away, or give --spec to refresh what the spec refers to"
            )


def publish(folder: pathlib.Path, files: Mapping[str, str]) -> None:
    """Makes the folder hold exactly these texts, by path inside it, and the manifest.

    Raises:
      FolderError: see `check`.
    """
    check(folder)
    new = {name: [_digest(text.encode())] for name, text in files.items()}
    manifest = _manifest_text(new)
    if not folder.exists():
        temporary = folder.with_name(f"{_TEMPORARY}{folder.name}")
        shutil.rmtree(temporary, ignore_errors=True)
        for name, text in {**files, MANIFEST: manifest}.items():
            _write(temporary / name, text)
        os.rename(temporary, folder)
        return
    before = _known(folder)
    both = {name: before.get(name, []) + new.get(name, []) for name in {**before, **new}}
    for name, text in files.items():
        _write(_beside(folder / name), text)
    replace(folder / MANIFEST, _manifest_text(both))
    for name in files:
        os.replace(_beside(folder / name), folder / name)
    for name in before:
        if name not in files:
            (folder / name).unlink(missing_ok=True)
    replace(folder / MANIFEST, manifest)


def admit(folder: pathlib.Path, files: Mapping[str, str]) -> None:
    """Notes in a folder's manifest, where there is one, files that were refreshed there."""
    if (folder / MANIFEST).exists():
        digests = {name: [_digest(text.encode())] for name, text in files.items()}
        replace(folder / MANIFEST, _manifest_text({**_known(folder), **digests}))


def replace(path: pathlib.Path, text: str) -> None:
    """Writes one file under a temporary name and renames it."""
    _write(_beside(path), text)
    os.replace(_beside(path), path)


def _beside(path: pathlib.Path) -> pathlib.Path:
    return path.with_name(f"{_TEMPORARY}{path.name}")


def _write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def _files(folder: pathlib.Path) -> list[str]:
    """Files in a folder, without the manifest and without what a crash left behind."""
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
        raise FolderError(f"{str(path)!r} is not what analysis writes; move it away") from error


def _manifest_text(files: Mapping[str, list[str]]) -> str:
    document = {"version": 1, "files": {name: files[name] for name in sorted(files)}}
    return json.dumps(document, indent=1) + "\n"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
