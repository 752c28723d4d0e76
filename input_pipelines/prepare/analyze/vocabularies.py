"""Which words a vocabulary file gets, and the two files of a feature: words, and their counts.

    vocabularies/<feature>.txt          one word a line, line i is id i, for the spec
    vocabularies/<feature>.counts.tsv   word, tab, count, for people and programs

The order is by falling count, ties by word, so that a vocabulary of the first n words is the n most
frequent ones. Never drops a word silently: `Vocabulary` says how many are left out, and why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class VocabularyWords:
    """The words of a feature that a vocabulary file holds.

    Attributes:
      words: (word, count), by falling count, ties by word.
      rare: how many words are left out because they occur less often than `min_count`.
      unusable: words that no vocabulary file can hold, since they would break its lines.
      exact: whether the counts are; if not, a count is a lower bound.
    """

    words: tuple[tuple[str, int], ...]
    rare: int
    unusable: tuple[str, ...]
    exact: bool

    def vocabulary_text(self) -> str:
        return "".join(f"{word}\n" for word, _ in self.words)

    def counts_text(self) -> str:
        return "".join(f"{word}\t{count}\n" for word, count in self.words)


def choose_words(
    counted: Sequence[tuple[str, int]], min_count: int, *, exact: bool, missing: str = ""
) -> VocabularyWords:
    """The words for a vocabulary file.

    Args:
      counted: words and counts in the order wanted.
      min_count: a word that occurs less often is left out.
      exact: whether the counts are exact.
      missing: a word that stands for a missing value and gets no id: "-1" for a single-valued
        integer; the empty string always.
    """
    kept, unusable, rare = [], [], 0
    for word, count in counted:
        if word in ("", missing):
            continue
        if "\n" in word or word.endswith("\r") or word.startswith("\ufeff"):
            unusable.append(word)
        elif count < min_count:
            rare += 1
        else:
            kept.append((word, count))
    return VocabularyWords(tuple(kept), rare, tuple(unusable), exact)
