"""Counts the different values of one feature: exactly while they are few, then with sketches.

Memory is bounded for any data. Up to `limit` different values are counted exactly. With more, the
counts go into a sketch of frequent words (at most 98,304 words) and a sketch of distinct values (16
KB), and stay there. Exact counts do not depend on the order of values and merges. Whether counts
are exact depends only on the values, too.

    counter = ValueCounter()
    counter.add([b"rome", b"oslo", b"rome"])
    counter.words()        # [("rome", 2), ("oslo", 1)]
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Optional, Union

from input_pipelines.prepare.analyze import numbers

Value = Union[bytes, int, float]

# How many different values are counted exactly. Words of 20 bytes take about 15 MB for a feature.
EXACT_LIMIT = 100_000

# A longer value is not useful in a vocabulary, and would take the memory of many words.
LONGEST_WORD = 256

_INTEGER = re.compile(r"-?[0-9]{1,19}")

# The start of the replacement for a long value. It is not UTF-8, so it cannot be a word.
_LONG = b"\xff\xfe"


class ValueCounter:
    """Counts different values; see the module.

    Attributes:
      exact: value -> count, or None if there are too many different values.
      total: the number of added values.
      not_words: how many values in the sketches are not words. `not_word_count` also works for
        exact counts.
    """

    def __init__(self, limit: int = EXACT_LIMIT, *, frequent: bool = True):
        """An empty counter.

        Args:
          limit: how many different values are counted exactly.
          frequent: whether frequent words are counted beyond the limit, or only the number of
            distinct values.
        """
        self.limit = limit
        self.exact: Optional[Counter[Value]] = Counter()
        self.total = 0
        self.not_words = 0
        self._frequent = frequent
        self._empty = 0
        self._integers = True
        self._distinct: Any = None
        self._words: Any = None

    def __getstate__(self) -> dict[str, Any]:
        """The state for another process, with sketches as bytes."""
        state = dict(self.__dict__)
        if self.exact is None:
            state["_distinct"] = self._distinct.serialize_compact()
            state["_words"] = self._words.serialize()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.exact is None:
            library = numbers.library()
            self._distinct = library.hll_sketch.deserialize(self._distinct)
            self._words = library.frequent_strings_sketch.deserialize(self._words)

    def add(self, values: list[Any]) -> None:
        """Counts values. All of them must be bytes, integers or finite floats."""
        if values and isinstance(values[0], bytes) and max(map(len, values)) > LONGEST_WORD:
            values = [_short(value) for value in values]
        self.total += len(values)
        if self.exact is None:
            self._to_sketches(Counter(values))
            return
        self.exact.update(values)
        self._check_limit()

    def merge(self, other: ValueCounter) -> None:
        """Adds the values of another counter with the same limit, without changing it."""
        self.total += other.total
        if other.exact is not None:
            if self.exact is not None:
                self.exact.update(other.exact)
                self._check_limit()
            else:
                self._to_sketches(other.exact)
            return
        self._leave_exact()
        self.not_words += other.not_words
        self._empty += other._empty
        self._integers = self._integers and other._integers
        self._distinct = numbers.union(self._distinct, other._distinct)
        if self._frequent:
            self._words.merge(other._words)

    @property
    def cardinality(self) -> int:
        """The number of different values; an estimate if counts are not `exact`."""
        if self.exact is not None:
            return len(self.exact)
        result: int = round(numbers.union(self._distinct).get_estimate())
        return result

    @property
    def largest_error(self) -> int:
        """By how much a count may be too small."""
        if self.exact is not None or self._words.is_empty():
            return 0
        return int(self._words.total_weight * self._words.epsilon) + 1

    @property
    def empty(self) -> int:
        """How many values are the empty string."""
        return self._empty if self.exact is None else self.exact[b""]

    @property
    def not_word_count(self) -> int:
        """How many values are not UTF-8 text, or are longer than `LONGEST_WORD` bytes."""
        if self.exact is None:
            return self.not_words
        return sum(n for value, n in self.exact.items() if _word(value) is None)

    @property
    def integers(self) -> bool:
        """Whether the values have words, and all of them are integers."""
        if self.exact is None:
            return self._integers
        words = [word for word in map(_word, self.exact) if word != ""]
        return bool(words) and all(w is not None and _INTEGER.fullmatch(w) for w in words)

    def words(self) -> list[tuple[str, int]]:
        """Words and their decreasing counts, ties by word. Integers are text; "" is not included.

        Beyond the limit, these are the frequent words in the sketch, and each count is a lower
        bound: the true count is larger by at most `largest_error`.
        """
        if self.exact is not None:
            pairs: Iterable[tuple[Optional[str], int]] = (
                (_word(value), count) for value, count in self.exact.items()
            )
        else:
            kind = numbers.library().frequent_items_error_type.NO_FALSE_NEGATIVES
            items = self._words.get_frequent_items(kind)
            pairs = ((word, int(lower)) for word, _, lower, _ in items)
        return sorted(
            ((word, count) for word, count in pairs if word and count),
            key=lambda pair: (-pair[1], pair[0]),
        )

    def _check_limit(self) -> None:
        assert self.exact is not None
        if len(self.exact) > self.limit:
            self._leave_exact()

    def _leave_exact(self) -> None:
        if self.exact is None:
            return
        counts, self.exact = self.exact, None
        self._distinct = numbers.distinct()
        self._words = numbers.frequent_words()
        # Sorted, so that the sketch does not depend on the order of the records before.
        self._to_sketches(Counter(dict(sorted(counts.items()))))

    def _to_sketches(self, counts: Counter[Value]) -> None:
        distinct = self._distinct
        if not self._frequent:
            for value in counts:
                distinct.update(value)
            return
        words = self._words
        for value, count in counts.items():
            word = _word(value)
            if word is None:
                self.not_words += count
                self._integers = False
                assert isinstance(value, bytes)
                distinct.update("\0" + value.hex())
            elif word == "":
                self._empty += count
                distinct.update("\0")
            else:
                distinct.update(word)
                words.update(word, count)
                if self._integers and not _INTEGER.fullmatch(word):
                    self._integers = False


def _short(value: bytes) -> bytes:
    if len(value) <= LONGEST_WORD:
        return value
    return _LONG + hashlib.blake2b(value, digest_size=32).digest()


def _word(value: Value) -> Optional[str]:
    """A value as text, or None for bytes that are not UTF-8."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
