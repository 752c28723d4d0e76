"""The hook of MkDocs: it adds pages that no file under docs/ holds. `mkdocs.yml` names it.

It adds the pages that `tools.reference` writes from the code, ARCHITECTURE.md, CHANGELOG.md and the
list of decisions. It also takes the link from a name that links to a file outside docs/, which
exists in the repository and not in the site. It writes nothing to disk.
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
# Blocks of code, which stay as they are, and links to files.
_LINK = re.compile(
    r"^```.*?^```$|(?<!!)\[([^\]]+)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)", re.M | re.S
)


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    from tools.reference.pages import PAGES

    pages = {path: write() for path, write in PAGES.items()}
    pages["decisions/index.md"] = decisions_page(pathlib.Path(config["docs_dir"]) / "decisions")
    for path, source in _FROM_ROOT.items():
        pages[path] = links_of_site((ROOT / source).read_text(encoding="utf-8"), folder="")
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    folder = posixpath.dirname(f"docs/{page.file.src_uri}")
    return links_of_site(markdown, folder=folder, shown=folder)


def decisions_page(folder: pathlib.Path) -> str:
    """A list of the decisions: number and title."""
    lines = [
        "# Decisions\n",
        "Each page says what a part of the kit has to solve, what was decided, and the price.\n",
    ]
    for path in sorted(folder.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        lines.append(f"- {path.stem[:3]}: [{title}]({path.name})")
    return "\n".join(lines) + "\n"


def links_of_site(text: str, *, folder: str, shown: str = "docs") -> str:
    """A page's text without its links to files outside docs/, and its other links moved.

    A link to a file that does not exist stays, for MkDocs to report.

    Args:
      folder: where the text is, from the root of the repository.
      shown: the folder of the page that shows it.
    """

    def changed(match: re.Match[str]) -> str:
        name, target, anchor = match.groups(default="")
        if not target:
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if not path.startswith("docs/") and path != "docs" and (ROOT / path).exists():
            return name
        if (ROOT / path).is_dir():
            path += "/index.md"
        return f"[{name}]({posixpath.relpath(path, shown)}{anchor})"

    return _LINK.sub(changed, text)
