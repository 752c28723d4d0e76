"""sizes: the numbers in the docstrings, and the collision share in a simulation."""

from __future__ import annotations

import numpy as np
import pytest

from input_pipelines.prepare.analyze import vocabularies

pytestmark = pytest.mark.no_tensorflow


def test_collision_share():
    assert vocabularies.collision_share(1000, 10_000) == pytest.approx(0.0951, abs=1e-4)
    assert vocabularies.collision_share(2, 4) == pytest.approx(0.25)
    assert (vocabularies.collision_share(1, 5), vocabularies.collision_share(3, 1)) == (0.0, 1.0)


def test_collision_share_is_what_happens():
    ids = np.random.default_rng(0).integers(0, 5000, 2000)
    _, counts = np.unique(ids, return_counts=True)
    seen = counts[counts > 1].sum() / 2000
    assert seen == pytest.approx(vocabularies.collision_share(2000, 5000), abs=0.03)


@pytest.mark.parametrize(
    "ids, size", [(1234, 13_000), (1, 10), (12, 120), (100, 1000), (10**6, 2_000_000)]
)
def test_hash_size(ids, size):
    assert vocabularies.hash_size(ids) == size


@pytest.mark.parametrize(
    "categories, dimension",
    [(1, 4), (100, 4), (256, 4), (257, 8), (4096, 8), (10_000, 16), (10**6, 32), (10**9, 64)],
)
def test_embedding_dimension(categories, dimension):
    assert vocabularies.embedding_dimension(categories) == dimension


def test_oov_buckets():
    assert [vocabularies.oov_buckets(n) for n in (0, 1, 10, 11, 10**6)] == [1, 1, 1, 2, 1000]
