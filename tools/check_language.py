"""Finds phrases that CONTRIBUTING.md's section on language rules out.

    python tools/check_language.py            # all texts, code and tests; `make lint` runs it
    python tools/check_language.py docs README.md

It prints `file:line: 'phrase': what to write` for each one, and exits with 1 if there are any. In a
Python file it reads comments, docstrings and other strings. In a Markdown file it leaves out
fenced blocks of code, but reads their comments. It also leaves out a table of sentences before and
after, whose columns are "not" and "but". It never changes a file.
"""

from __future__ import annotations

import io
import pathlib
import re
import sys
import tokenize
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
EVERYTHING = (
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "docs",
    "benchmarks", "estimator_kit", "examples", "feature_specs", "input_pipelines", "tests", "tools",
    "exp.flags", "run.py", "Makefile", "mkdocs.yml", "pyproject.toml", ".ci/run",
)  # fmt: skip
SUFFIXES = {".py", ".md", ".yaml", ".yml", ".flags", ".json", ".sh", ".toml", ""}
# This file lists the phrases.
LEFT_OUT = {"tools/check_language.py"}

# What is ruled out, as a regular expression, and what to write.
PHRASES = {
    r"\bbesides?\b": "'with', 'next to', 'in addition to' or 'compared with'",
    r"\b(?:is|are|as|was|were) (?-i:none)\b": "say what is missing: 'has no ...', 'does not exist'",
    r"\b(?:is|are|was|were) no\b(?! longer)": "name the actor: 'has no ...', '... does not exist'",
    r"\bheld against\b": "'compared with'",
    r"\bholds? (?:it|them|\w+) (?:against|to)\b": "'compares ... with'",
    r"\b(?:is|are) there twice\b": "'is listed twice'",
    r"\bpass(?:es|ed)? over\b": "'ignores' or 'skips'",
    r"\bwithout a word\b": "'silently'",
    r"\bin silence\b": "'silently'",
    r"\bof (?:its|their|his|one's|your) own\b": "'its own ...', 'a separate ...'",
    r"\bthe others\b": "name them: 'the other columns'",
    r"\b(?:that|those) of\b": "repeat the noun, or use 's",
    r"\banew\b": "'again'",
    r"\bwhence\b": "'from which'",
    r"\bby chance\b": "'at random'",
    r"\bfor ever\b": "'forever', 'without end'",
    r"\bto begin with\b": "'first'",
    r"\bso many\b": "name the number",
    r"\b(?:\w*(?:behaviour|colour|favour|neighbour)|licence|modell|labell"
    r"|(?:normal|initial|optim|organ|quant|serial|summar|vector|recogn|minim|maxim)is(?=e|ing|ation))"
    r"\w*": "American spelling",
}  # fmt: skip
_PATTERN = re.compile("|".join(f"({phrase})" for phrase in PHRASES), re.IGNORECASE)
_ADVICE = tuple(PHRASES.values())
# The header of a table of sentences before and after.
_EXAMPLES = ["|", "not", "|", "but", "|"]
_IDENTIFIER = re.compile(r"`[^`]*`")


def main(arguments: list[str]) -> int:
    found = 0
    paths = [ROOT / name for name in arguments or EVERYTHING]
    missing = [path for path in paths if not path.exists()]
    for path in missing:
        print(f"{path}: does not exist. Name files and folders of the repository.")
    if missing:
        return 2
    for path in files(paths):
        for line, phrase, advice in problems(path):
            print(f"{path.relative_to(ROOT)}:{line}: {phrase!r}: {advice}")
            found += 1
    if found:
        print(f"{found} phrases to change; see 'Language' in CONTRIBUTING.md")
    return 1 if found else 0


def files(paths: list[pathlib.Path]) -> Iterator[pathlib.Path]:
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in inside:
            if (
                file.is_file()
                and file.suffix in SUFFIXES
                and "__pycache__" not in file.parts
                and str(file.relative_to(ROOT)) not in LEFT_OUT
            ):
                yield file


def problems(path: pathlib.Path) -> Iterator[tuple[int, str, str]]:
    """(line, phrase, advice) for each phrase in a file that is ruled out."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for first, piece in python_text(text) if path.suffix == ".py" else other_text(text, path):
        # A phrase may be broken over two lines, with the comment sign of the second between.
        joined = re.sub(r"\n[ \t]*#?[ \t]*", lambda m: "\n" + " " * (len(m[0]) - 1), piece)
        flat = re.sub(r"\s", " ", _IDENTIFIER.sub(lambda m: " " * len(m[0]), joined))
        for match in _PATTERN.finditer(re.sub(r" (?= )", "\0", flat).replace("\0", "")):
            position = _position(flat, match[0], match.start())
            yield first + piece.count("\n", 0, position), match[0], _ADVICE[match.lastindex - 1]


def _position(flat: str, phrase: str, at_least: int) -> int:
    """Where a phrase that was found with its spaces collapsed starts in the text itself."""
    pattern = re.compile(r"\s+".join(map(re.escape, phrase.split())), re.IGNORECASE)
    match = pattern.search(flat, at_least)
    return match.start() if match else at_least


def python_text(text: str) -> Iterator[tuple[int, str]]:
    """(first line, text) of each string and of each block of comments."""
    comments: list[str] = []
    start = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if comments and token.start[0] == start + len(comments):
                comments.append(token.string)
            else:
                if comments:
                    yield start, "\n".join(comments)
                comments, start = [token.string], token.start[0]
        elif token.type == tokenize.STRING or "STRING_MIDDLE" in tokenize.tok_name[token.type]:
            yield token.start[0], token.string
    if comments:
        yield start, "\n".join(comments)


def other_text(text: str, path: pathlib.Path) -> Iterator[tuple[int, str]]:
    if path.suffix != ".md":
        yield 1, text
        return
    code = examples = False
    kept = []
    for line in text.splitlines():
        examples = line.startswith("|") and (examples or line.split() == _EXAMPLES)
        if line.lstrip().startswith("```"):
            code = not code
            kept.append("")
        else:
            kept.append(line if not examples and (not code or "#" in line) else "")
    yield 1, "\n".join(kept)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
