"""Finds phrases that readers had to read twice; see CONTRIBUTING.md.

    python tools/check_language.py            # all texts, code and tests; `make lint` runs it
    python tools/check_language.py docs README.md

It prints `file:line: 'phrase': what to write` for each one, and exits with 1 if there are any. It
leaves out `code` in backticks, and a table of sentences before and after, whose columns are "not"
and "but". It never changes a file.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parent.parent
EVERYTHING = (
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md", "docs",
    "benchmarks", "estimator_kit", "examples", "feature_specs", "input_pipelines", "tests", "tools",
    "exp.flags", "run.py", "Makefile", "mkdocs.yml", "pyproject.toml", ".ci/run",
)  # fmt: skip
SUFFIXES = {".py", ".md", ".yaml", ".yml", ".flags", ".json", ".sh", ".toml", ""}

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
    r"\bby chance\b": "'at random'",
    r"\bfor ever\b": "'forever', 'without end'",
    r"\bto begin with\b": "'first'",
    r"\bso many\b": "name the number",
    r"\b(?:\w*(?:behaviour|colour|favour|neighbour)|licence|modell|labell"
    r"|(?:normal|initial|optim|organ|quant|serial|summar|vector|recogn|minim|maxim)is(?=e|ing|ation))"
    r"\w*": "American spelling",
}  # fmt: skip
_PATTERN = re.compile(
    "|".join(f"({phrase})" for phrase in PHRASES).replace(" ", r"\s+"), re.IGNORECASE
)
_ADVICE = tuple(PHRASES.values())
_LEFT_OUT = re.compile(r"^\| not \| but \|\n(?:\|.*\n)*|`[^`\n]*`", re.MULTILINE)
# Where a phrase may be broken: the end of a line of text, of a comment or of a string.
_BREAK = re.compile(r"[\"']?\n[ \t]*(?:#|[fr]?[\"'])?[ \t]*")


def main(arguments: list[str]) -> int:
    count = 0
    for name in arguments or EVERYTHING:
        if not (ROOT / name).exists():
            print(f"{ROOT / name}: does not exist. Name files and folders of the repository.")
            return 2
        for path in files(ROOT / name):
            for line, phrase, advice in problems(path.read_text("utf-8", "replace")):
                print(f"{path.relative_to(ROOT)}:{line}: {phrase!r}: {advice}")
                count += 1
    if count:
        print(f"{count} phrases to change")
    return 1 if count else 0


def files(path: pathlib.Path) -> Iterator[pathlib.Path]:
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file() and file.suffix in SUFFIXES and file != pathlib.Path(__file__).resolve():
            yield file


def problems(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, phrase, advice) for each phrase in a text that is ruled out."""
    text = _LEFT_OUT.sub(lambda match: re.sub(r"[^\n]", "_", match[0]), text)
    text = _BREAK.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for match in _PATTERN.finditer(text):
        phrase, advice = " ".join(match[0].split()), _ADVICE[match.lastindex - 1]
        yield text.count("\n", 0, match.start()) + 1, phrase, advice


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
