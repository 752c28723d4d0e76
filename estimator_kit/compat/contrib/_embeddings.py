"""The embedding functions of tf.contrib.layers that tf_slim does not have.

Variables are model variables named `embeddings` below the scope, as in TensorFlow 1.15, so that
its checkpoints can be read.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

from . import _slim

__all__ = [
    "bow_encoder",
    "embed_sequence",
    "embedding_lookup_unique",
    "safe_embedding_lookup_sparse",
]

_variables = _slim.load("tf_slim.ops.variables")


def embed_sequence(
    ids: Any,
    vocab_size: Optional[int] = None,
    embed_dim: Optional[int] = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Optional[bool] = None,
) -> Any:
    """An embedding for each id.

    Args:
      ids: int32 or int64 Tensor [batch, length].
      unique: each id is looked up once, however often it occurs.
      reuse: the variable of an earlier call with this scope; then the sizes are optional.

    Returns:
      A Tensor [batch, length, embed_dim].

    Raises:
      ValueError: a size is missing for a new variable.
    """
    if not reuse and not (vocab_size and embed_dim):
        raise ValueError(
            f"expected vocab_size and embed_dim, got vocab_size={vocab_size} and "
            f"embed_dim={embed_dim}. They are optional only with reuse=True."
        )
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
        table = _table(shape, initializer, regularizer, trainable)
        if unique:
            return embedding_lookup_unique(table, ids)
        return tf.nn.embedding_lookup(table, ids)


def bow_encoder(
    ids: Any,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Optional[bool] = None,
) -> Any:
    """The mean of the embeddings of each example.

    Args:
      ids: int32 or int64 Tensor or SparseTensor [batch, length].
      sparse_lookup: id 0 is padding: it is left out, and an example without ids has the embedding
        of id 0. With False, each id counts, and `ids` must be dense.

    Returns:
      A Tensor [batch, embed_dim].

    Raises:
      ValueError: a size is 0 or None.
      TypeError: `ids` is sparse and `sparse_lookup` is False.
    """
    if not vocab_size or not embed_dim:
        raise ValueError(
            f"expected vocab_size and embed_dim, got vocab_size={vocab_size} and "
            f"embed_dim={embed_dim}."
        )
    sparse = isinstance(ids, tf.SparseTensor)
    with tf.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        table = _table([vocab_size, embed_dim], initializer, regularizer, trainable)
        if sparse_lookup:
            ids = ids if sparse else tf.sparse.from_dense(ids)
            return safe_embedding_lookup_sparse([table], ids, combiner="mean", default_id=0)
        if sparse:
            raise TypeError("ids: expected a Tensor with sparse_lookup=False, got a SparseTensor")
        return tf.reduce_mean(tf.nn.embedding_lookup(table, ids), axis=1)


def _table(shape: Optional[list[int]], initializer: Any, regularizer: Any, trainable: bool) -> Any:
    return _variables.model_variable(
        "embeddings",
        shape=shape,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
    )


def embedding_lookup_unique(
    params: Any, ids: Any, partition_strategy: str = "mod", name: Optional[str] = None
) -> Any:
    """`tf.nn.embedding_lookup` that looks up each id once; `ids` of any shape."""
    with tf.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = tf.convert_to_tensor(ids)
        different, places = tf.unique(tf.reshape(ids, [-1]))
        rows = tf.nn.embedding_lookup(params, different, partition_strategy)
        flat = tf.gather(rows, places)
        result = tf.reshape(flat, tf.concat([tf.shape(ids), tf.shape(flat)[1:]], 0))
        result.set_shape(ids.shape.concatenate(flat.shape[1:]))
        return result


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: Optional[str] = None,
    default_id: Optional[int] = None,
    name: Optional[str] = None,
    partition_strategy: str = "div",
    max_norm: Optional[float] = None,
) -> Any:
    """`tf.nn.safe_embedding_lookup_sparse`, with the mean as the default combiner."""
    return tf.nn.safe_embedding_lookup_sparse(
        embedding_weights,
        sparse_ids,
        sparse_weights,
        combiner or "mean",
        default_id,
        name,
        partition_strategy,
        max_norm,
    )
