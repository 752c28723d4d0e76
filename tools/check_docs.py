"""Checks of the documentation that MkDocs does not make. It needs no network.

    python tools/check_docs.py build/site

It prints each problem, and exits with 1 if there are any:

- a link to a file or heading of the repository that does not exist, in the Markdown files next to
  README.md (MkDocs checks the pages below docs/);
- a page of README.md, docs/index.md or docs/tutorials/ that is hard to read: Flesch reading ease
  below 50;
- a built page that would load something from another host, so that it would not work offline.

It needs pyphen, which counts syllables with its dictionary.
"""

from __future__ import annotations

import html.parser
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Optional

ROOT = pathlib.Path(__file__).resolve().parent.parent

LEAST_READING_EASE = 50

_FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
# Tags that make a browser load something, and the attribute that says what.
_LOADS = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
# `link` elements that load nothing.
_ONLY_NAMED = {"canonical", "next", "prev", "alternate"}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python tools/check_docs.py SITE, the folder of the built site")
        return 2
    problems = [
        *broken_links(ROOT),
        *hard_pages(ROOT),
        *loads_from_elsewhere(pathlib.Path(arguments[0])),
    ]
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


def broken_links(root: pathlib.Path) -> Iterator[str]:
    """Links of the Markdown files in a folder, not below it, that lead nowhere."""
    for path in sorted(root.glob("*.md")):
        text = without_code(path.read_text(encoding="utf-8"))
        for _, target in _LINK.findall(text):
            if re.match(r"\w+:", target):
                continue
            name, _, anchor = target.partition("#")
            found = root / name if name else path
            if not found.exists():
                yield f"{path.name}: the link {target} leads to a file that does not exist"
            elif anchor and anchor not in anchors(found.read_text(encoding="utf-8")):
                yield f"{path.name}: the link {target} leads to a heading that does not exist"


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a Markdown text."""
    names = set()
    for title in re.findall(r"^#+ (.*)$", without_code(text, inline=False), re.MULTILINE):
        names.add(re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-"))
    return names


def hard_pages(root: pathlib.Path) -> Iterator[str]:
    """Pages for new users whose reading ease is too low."""
    pages = [root / "README.md", root / "docs" / "index.md"]
    for path in [*pages, *sorted((root / "docs" / "tutorials").glob("*.md"))]:
        ease = reading_ease(prose(path.read_text(encoding="utf-8")))
        if ease < LEAST_READING_EASE:
            yield (
                f"{path.relative_to(root)}: its Flesch reading ease is {ease:.1f}, expected "
                f"{LEAST_READING_EASE} or more. Use shorter sentences and shorter words."
            )


def reading_ease(text: str) -> float:
    """Flesch reading ease (Flesch, 1948) of English prose.

    206.835 - 1.015 words / sentences - 84.6 syllables / words. A text without words has 100.
    """
    sentences = [s for s in re.split(r"[.!?]+(?:\s|$)", text) if re.search(r"[a-zA-Z]", s)]
    words = [word for sentence in sentences for word in re.findall(r"[a-zA-Z']+", sentence)]
    if not words:
        return 100.0
    syllables = sum(map(syllable_count, words))
    return 206.835 - 1.015 * len(words) / len(sentences) - 84.6 * syllables / len(words)


def syllable_count(word: str) -> int:
    """The syllables of a word.

    pyphen knows the places of hyphens, which are fewer than syllables, as in `data`. Groups of
    vowels are sometimes more. The larger number of both is rarely too small.
    """
    import pyphen

    word = word.lower().strip("'")
    hyphens = len(pyphen.Pyphen(lang="en_US").positions(word))
    vowels = len(re.findall(r"[aeiouy]+", re.sub(r"(?<=[^aeiouyl])(?:e|es|ed)$", "", word)))
    return max(1, hyphens + 1, vowels)


def prose(text: str) -> str:
    """The sentences of a Markdown page: without headings, tables, code, HTML and links' targets."""
    kept = []
    for line in without_code(text, inline=False).splitlines():
        line = re.sub(r"^\s*(?:[-*>]|\d+\.)\s+", "\n\n", line)
        if re.match(r"\s*(?:#|\||<|!!!|\?\?\?|===)", line):
            kept.append("")
        else:
            kept.append(line)
    # A paragraph or an item of a list ends a sentence, also without a full stop.
    text = re.sub(r"\n\s*\n", ". ", "\n".join(kept))
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = _LINK.sub(r"\1", text)
    return re.sub(r"`[^`]*`", _named, text)


def _named(code: re.Match[str]) -> str:
    """Inline code as people read it: a plain word as it is, and anything else as one word."""
    text = code[0].strip("`")
    return text if re.fullmatch(r"[a-zA-Z]+", text) else "code"


def without_code(text: str, *, inline: bool = True) -> str:
    """Markdown without its blocks of code, and without inline code."""
    text = _FENCED.sub("", text)
    return re.sub(r"`[^`\n]*`", "", text) if inline else text


def loads_from_elsewhere(site: pathlib.Path) -> Iterator[str]:
    """What a built page would load from another host."""
    if not site.is_dir():
        yield f"{site} does not exist. Build the site first, with `make docs`."
    for path in sorted(site.rglob("*.html")):
        reader = _Loads()
        reader.feed(path.read_text(encoding="utf-8"))
        for address in reader.found:
            yield f"{path.relative_to(site)}: it loads {address} from another host"
    for path in sorted(site.rglob("*.css")):
        for address in re.findall(
            r"(?:url\(|@import)\s*[\"']?(https?://[^\"')\s]+)", path.read_text(encoding="utf-8")
        ):
            yield f"{path.relative_to(site)}: it loads {address} from another host"


class _Loads(html.parser.HTMLParser):
    """Collects the addresses of other hosts that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, Optional[str]]]) -> None:
        attributes = dict(attrs)
        address = attributes.get(_LOADS.get(tag, "")) or ""
        if tag == "link" and attributes.get("rel") in _ONLY_NAMED:
            return
        if re.match(r"(?:https?:)?//", address):
            self.found.append(address)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
