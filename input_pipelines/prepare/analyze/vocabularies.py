"""Chooses the words of a vocabulary, and makes the two files of a feature: words, and counts.

    vocabularies/<feature>.txt          one word on each line; line i is id i; for the spec
    vocabularies/<feature>.counts.tsv   word, tab, count; for people and programs

Words are sorted by decreasing count, ties by word, so the first n words are the n most frequent
ones. No word is dropped silently: `VocabularyWords` says how many are left out, and why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from feature_specs.vocabulary import fits_a_line


@dataclasses.dataclass(frozen=True)
class VocabularyWords:
    """The words of a feature for its vocabulary file.

    Attributes:
      words: (word, count), by decreasing count, ties by word.
      rare: how many words are left out because they occur less often than `min_count`.
      unusable: words that a vocabulary file cannot store, because they would break its lines.
      exact: whether the counts are exact. Otherwise they are lower bounds.
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
    counted: Sequence[tuple[str, int]], min_count: int, *, exact: bool
) -> VocabularyWords:
    """The words for a vocabulary file. The empty string never gets an id.

    Args:
      counted: words and counts in the wanted order.
      min_count: words that occur less often are left out.
      exact: whether the counts are exact.
    """
    kept, unusable, rare = [], [], 0
    for word, count in counted:
        if not word:
            continue
        if not fits_a_line(word):
            unusable.append(word)
        elif count < min_count:
            rare += 1
        else:
            kept.append((word, count))
    return VocabularyWords(tuple(kept), rare, tuple(unusable), exact)
