"""The hook of MkDocs: it adds pages that no file under docs/ holds. `mkdocs.yml` names it.

It adds the reference, which `tools.reference` writes from the code, ARCHITECTURE.md, CHANGELOG.md
and the list of decisions. It also takes the link from a name that links to a file outside docs/,
which exists in the repository and not in the site. It writes nothing to disk.
"""

from __future__ import annotations

import pathlib
import posixpath
import re
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

# Files of the repository that are pages of the site.
_FROM_ROOT = {"architecture.md": "ARCHITECTURE.md", "changelog.md": "CHANGELOG.md"}
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    from tools.reference.pages import PAGES

    pages = {path: write() for path, write in PAGES.items()}
    for path, source in _FROM_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        pages[path] = moved_links(text, folder="", to="docs")
    pages["decisions/index.md"] = decisions_page(pathlib.Path(config["docs_dir"]) / "decisions")
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    return without_outer_links(markdown, posixpath.dirname(f"docs/{page.file.src_uri}"))


def decisions_page(folder: pathlib.Path) -> str:
    """A list of the decisions: number, title and the first sentence of the section Decision."""
    lines = [
        "# Decisions",
        "",
        "Each page says what a part of the kit has to solve, what was decided, and the price.",
        "",
    ]
    for path in sorted(folder.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        lines.append(f"- {path.stem[:3]}: [{title}]({path.name})")
    return "\n".join(lines) + "\n"


def moved_links(text: str, *, folder: str, to: str) -> str:
    """A page's text with its links as from another folder.

    Args:
      folder: where the text is, from the root of the repository.
      to: where it is shown.
    """

    def moved(match: re.Match[str]) -> str:
        name, target = match.groups()
        if re.match(r"\w+:|#", target):
            return match[0]
        path, hash_sign, anchor = target.partition("#")
        if (ROOT / folder / path).is_dir():
            path = posixpath.join(path, "index.md")
        path = posixpath.relpath(posixpath.join(folder, path), to)
        return f"[{name}]({path}{hash_sign}{anchor})"

    return _outside_code(text, moved)


def without_outer_links(text: str, folder: str) -> str:
    """A page's text without its links to files outside docs/.

    A link to a file that does not exist stays, for MkDocs to report.
    """

    def plain(match: re.Match[str]) -> str:
        name, target = match.groups()
        path = posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))
        inside = path == "docs" or path.startswith("docs/")
        if re.match(r"\w+:|#", target) or inside or not (ROOT / path).exists():
            return match[0]
        return name

    return _outside_code(text, plain)


def _outside_code(text: str, change: Any) -> str:
    parts = _FENCED.split(text)
    return "".join(part if i % 2 else _LINK.sub(change, part) for i, part in enumerate(parts))
