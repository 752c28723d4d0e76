"""The sketches of the `datasketches` library that analysis uses, imported when first asked for.

A sketch holds a summary of bounded size of a stream of any length. Sizes are chosen here, once, so
that sketches of different workers merge. Never computes anything itself.
"""

from __future__ import annotations

from typing import Any

from input_pipelines.errors import MissingPackageError

# 2**14 registers: a standard error of 0.8% of the cardinality, in 16 KB.
_LG_REGISTERS = 14

# At most 0.75 * 2**17 = 98,304 words; one that makes up more than 1/37,000 of all values is in it.
_LG_WORDS = 17

# About 35 KB; quantiles are off by 0.1% of the rows in the middle, by far less at the ends.
_CENTROIDS = 2000


def library() -> Any:
    """The module `datasketches`.

    Raises:
      MissingPackageError: it is not installed.
    """
    try:
        import datasketches
    except ImportError as error:
        raise MissingPackageError(
            "analysis needs the package 'datasketches'; "
            "install it with: pip install estimator-kit[analyze]"
        ) from error
    return datasketches


def distinct() -> Any:
    """A HyperLogLog sketch: how many different values."""
    return library().hll_sketch(_LG_REGISTERS, library().tgt_hll_type.HLL_8)


def union(*sketches: Any) -> Any:
    """HyperLogLog sketches as one.

    What a union estimates depends on the values alone and not on their order, which is not true
    of a sketch that was only updated; so every estimate is taken from a union.
    """
    result = library().hll_union(_LG_REGISTERS)
    for sketch in sketches:
        result.update(sketch)
    return result.get_result(library().tgt_hll_type.HLL_8)


def frequent_words() -> Any:
    """A Misra-Gries sketch: the frequent words, each with a lower and an upper bound."""
    return library().frequent_strings_sketch(_LG_WORDS)


def quantiles() -> Any:
    """A t-digest. Unlike a KLL sketch it draws no random numbers: same data, same quantiles."""
    return library().tdigest_double(_CENTROIDS)
