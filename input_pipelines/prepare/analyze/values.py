"""Counts of the different values of one feature: exact while they are few, then by sketches.

Memory is bounded whatever the data: up to `limit` different values are counted one by one; when
there are more, the counts go into a sketch of frequent words (of 98,304 words at most) and one of
distinct values (16 KB), and stay there. Exact counts are the same in whatever order values come and
counters are merged; whether they are exact depends only on the values, too.

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

from input_pipelines.prepare.analyze import sketches

Value = Union[bytes, int, float]

# Different values that are counted one by one: with words of 20 bytes about 15 MB a feature.
EXACT_LIMIT = 100_000

# A longer value is no word of a vocabulary, and would take the memory of many.
LONGEST_WORD = 256

_INTEGER = re.compile(r"-?[0-9]{1,19}")

# What stands for a long value: it is no UTF-8, so it can be no word.
_LONG = b"\xff\xfe"


class ValueCounter:
    """Counts of different values; see the module.

    Attributes:
      exact: value -> count, or None once there are too many values.
      total: number of values added.
      not_words: in sketches, how many of them are no words; `not_word_count` is for both states.
    """

    def __init__(self, limit: int = EXACT_LIMIT, *, frequent: bool = True):
        """A counter of nothing.

        Args:
          limit: different values that are counted one by one.
          frequent: whether words are wanted beyond that, or only the number of distinct values.
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
        """What another process needs: sketches as bytes."""
        state = dict(self.__dict__)
        if self.exact is None:
            state["_distinct"] = self._distinct.serialize_compact()
            state["_words"] = self._words.serialize()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.exact is None:
            library = sketches.library()
            self._distinct = library.hll_sketch.deserialize(self._distinct)
            self._words = library.frequent_strings_sketch.deserialize(self._words)

    def add(self, values: list[Any]) -> None:
        """Counts values: all bytes, all integers or all finite floats."""
        if values and isinstance(values[0], bytes) and max(map(len, values)) > LONGEST_WORD:
            values = [_short(value) for value in values]
        self.total += len(values)
        if self.exact is None:
            self._to_sketches(Counter(values))
            return
        self.exact.update(values)
        self._check_limit()

    def merge(self, other: ValueCounter) -> None:
        """Adds another counter's values, with the same limit; the other is not changed."""
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
        self._distinct = sketches.union(self._distinct, other._distinct)
        if self._frequent:
            self._words.merge(other._words)

    @property
    def cardinality(self) -> int:
        """Number of different values, estimated when not `exact`."""
        if self.exact is not None:
            return len(self.exact)
        return round(sketches.union(self._distinct).get_estimate())

    @property
    def largest_error(self) -> int:
        """How much too small a count may be."""
        if self.exact is not None or self._words.is_empty():
            return 0
        return int(self._words.total_weight * self._words.epsilon) + 1

    @property
    def empty(self) -> int:
        """How many values are the empty string."""
        return self._empty if self.exact is None else self.exact[b""]

    @property
    def not_word_count(self) -> int:
        """How many values are no UTF-8 text or longer than `LONGEST_WORD` bytes."""
        if self.exact is None:
            return self.not_words
        return sum(n for value, n in self.exact.items() if _word(value) is None)

    @property
    def integers(self) -> bool:
        """Whether there are words and all are integers."""
        if self.exact is None:
            return self._integers
        words = [word for word in map(_word, self.exact) if word != ""]
        return bool(words) and all(w is not None and _INTEGER.fullmatch(w) for w in words)

    @property
    def state_size(self) -> int:
        """Number of values held one by one: what memory grows with."""
        if self.exact is not None:
            return len(self.exact)
        return int(self._words.num_active_items) if self._frequent else 0

    def words(self) -> list[tuple[str, int]]:
        """Words and their counts, falling, ties by word; integers as text, no empty string.

        Beyond the limit these are the frequent words that the sketch knows, and each count is a
        lower bound: the true one is larger by `largest_error` at most.
        """
        if self.exact is not None:
            pairs: Iterable[tuple[Optional[str], int]] = (
                (_word(value), count) for value, count in self.exact.items()
            )
        else:
            kind = sketches.library().frequent_items_error_type.NO_FALSE_NEGATIVES
            found = self._words.get_frequent_items(kind)
            pairs = ((word, int(lower)) for word, _, lower, _ in found)
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
        self._distinct = sketches.distinct()
        self._words = sketches.frequent_words()
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
    """A value as text, or None for bytes that are none."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
