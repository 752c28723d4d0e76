"""Chooses the words of a vocabulary, and makes the two files of a feature: words, and counts.

    vocabularies/<feature>.txt          one word on each line; line i is id i; for the spec
    vocabularies/<feature>.counts.tsv   word, tab, count; for people and programs

Words are sorted by decreasing count, ties by word, so the first n words are the n most frequent
ones. No word is dropped silently: `VocabularyWords` says how many are left out, and why.

Also has the rules for the sizes of hash buckets and embeddings in a first spec, each with its
source. They are starting points for tuning on a metric.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Sequence

from feature_specs.kinds.vocabulary import fits_a_line


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


# The largest share of next items that a first spec leaves out of the catalogue.
_MOST_UNKNOWN = 0.01


def min_count_of_items(counts: Iterable[int], min_count: int) -> int:
    """The largest `min_count`, at most the given one, that leaves out 1 % of all values or less.

    An item outside of the vocabulary cannot be recommended, and counts as a miss. Of 1,000 items
    that occur once and 100 that occur 90 times, 10 % of the values are of rare items, so the result
    is 1. Of 100 and 900, it is the given one.
    """
    of_count = Counter(counts)
    total = sum(count * items for count, items in of_count.items())
    left_out = 0
    for count in range(1, min_count):
        left_out += count * of_count[count]
        if left_out > _MOST_UNKNOWN * total:
            return count
    return min_count


LARGEST_HASH = 2_000_000
_SMALLEST_EMBEDDING, _LARGEST_EMBEDDING = 4, 64
_BUCKETS_PER_ID = 10


def collision_share(ids: int, buckets: int) -> float:
    """The expected share of `ids` that share their bucket with another one.

    An id is alone if all n - 1 other ids have other buckets, which has the probability
    (1 - 1/m)^(n - 1) for m buckets, so the share is 1 - (1 - 1/m)^(n - 1). For 1,000 ids in
    10,000 buckets that is 1 - 0.9999^999 = 0.0951, or 9.5%.
    """
    if ids < 2:
        return 0.0
    return -math.expm1((ids - 1) * math.log1p(-1 / buckets)) if buckets > 1 else 1.0


def hash_size(ids: int) -> int:
    """Buckets for a hash column over `ids` values: ten times as many, in two digits, rounded up.

    With ten buckets for each id, about 9.5% of the ids collide. 1,234 ids get 13,000 buckets. The
    result is at least 10 and at most 2,000,000. With more buckets, the table's memory matters more
    than collisions.
    """
    wanted = max(_BUCKETS_PER_ID * ids, 10)
    unit = 10 ** max(len(str(wanted)) - 2, 0)
    result: int = min(-(-wanted // unit) * unit, LARGEST_HASH)
    return result


def embedding_dimension(categories: int) -> int:
    """The fourth root of the number of categories, rounded up to a power of two, from 4 to 64.

    The fourth root is the rule of thumb of Google's "Introducing TensorFlow Feature Columns"
    (developers.googleblog.com, 2017); powers of two suit memory and vector instructions. 100
    categories give 4 (3.2), 10,000 give 16 (10.0), 1,000,000 give 32 (31.6).
    """
    root = max(categories, 1) ** 0.25
    # Subtract a tiny number, so that a whole root is not rounded up.
    power = 1 << max(math.ceil(math.log2(root) - 1e-9), 0)
    return min(max(power, _SMALLEST_EMBEDDING), _LARGEST_EMBEDDING)


def oov_buckets(rare: int) -> int:
    """Buckets for words outside a vocabulary: one for every ten rare words, from 1 to 1000."""
    return min(max(-(-rare // 10), 1), 1000)
