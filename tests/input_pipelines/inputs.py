"""The input_fn of a training, from whatever it reads."""

from __future__ import annotations

from input_pipelines import input_fns
from input_pipelines.reading.mixing import Mix
from input_pipelines.reading.own_rows import OwnRows
from input_pipelines.reading.shuffling import Span
from input_pipelines.reading.sources import Files, Mixed, OfFunction
from input_pipelines.row_cache.cache import Cached


def training(
    spec, rows, *, batch_size, epochs=None, skip_rows=0, rows_an_epoch=None, cache=None, **options
):
    """`rows` are files, a mix or the rows of a function; `options` go to the source or input."""
    of_input = {name: options.pop(name) for name in ("shard", "pad") if name in options}
    kind = {Mix: Mixed, OwnRows: OfFunction}.get(type(rows), Files)
    source = kind(spec, rows, **options)
    if cache is not None:
        source = Cached.of(source, cache)
    if rows_an_epoch is not None and kind is not Mixed:
        rows_an_epoch = [rows_an_epoch]
    return input_fns.training_batches(
        source,
        batch_size=batch_size,
        span=Span(skip_rows, epochs, rows_an_epoch or ()),
        **of_input,
    )
