"""The sketches of the `datasketches` library that analysis uses. It is imported at the first use.

A sketch is a summary of a stream of any length, with a bounded size. All sizes are chosen here, so
that sketches of different workers can be merged. This module computes nothing itself.
"""

from __future__ import annotations

from typing import Any

from input_pipelines.errors import MissingPackageError

# 2**14 registers: a standard error of 0.8% of the cardinality, in 16 KB.
_LG_REGISTERS = 14

# At most 0.75 * 2**17 = 98,304 words. Each word with more than 1/37,000 of all values is included.
_LG_WORDS = 17

# About 35 KB. The error of quantiles is 0.1% of the rows in the middle, and far less at the ends.
_CENTROIDS = 2000


def library() -> Any:
    """The module `datasketches`.

    Raises:
      MissingPackageError: datasketches is not installed.
    """
    try:
        import datasketches
    except ImportError as error:
        raise MissingPackageError(
            "analysis needs the package 'datasketches'; "
            "install it with: pip install 'estimator-kit[analyze]'"
        ) from error
    return datasketches


def distinct() -> Any:
    """A HyperLogLog sketch: estimates the number of different values."""
    return library().hll_sketch(_LG_REGISTERS, library().tgt_hll_type.HLL_8)


def union(*sketches: Any) -> Any:
    """Merges HyperLogLog sketches.

    The estimate of a union depends only on the values, not on their order. The estimate of a sketch
    that was only updated depends on the order, too, and a union of one sketch is a copy of it. So
    every estimate comes from a union, and the first sketch is added twice: it changes no register.
    """
    result = library().hll_union(_LG_REGISTERS)
    for sketch in (*sketches, sketches[0]):
        result.update(sketch)
    return result.get_result(library().tgt_hll_type.HLL_8)


def frequent_words() -> Any:
    """A Misra-Gries sketch: the frequent words, with lower and upper bounds of their counts."""
    return library().frequent_strings_sketch(_LG_WORDS)


def quantiles() -> Any:
    """A t-digest. Its quantiles depend on the order of the values, within the error above.

    Unlike a KLL sketch, it uses no random numbers: the same data in the same order give the same
    quantiles.
    """
    return library().tdigest_double(_CENTROIDS)
