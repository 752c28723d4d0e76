"""TFRecord files with damaged framing, wrong payloads, or Examples that do not fit the spec."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Sequence

from input_pipelines.record_files import framing
from tests.conftest import make_rows
from tests.integration.fuzz import draws
from tests.integration.fuzz.place import Drawn, Place
from tests.integration.fuzz.start import EXPORT

_FILES = ("train-0.tfrecord", "train-1.tfrecord.gz", "eval.tfrecord")

_RUNS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (10, ("--mode=check_data",)),
    (4, ("--mode=check_data", "--spec=")),
    (8, ("--mode=analyze", "--spec=", "--labels=click", "--analysis_dir=out")),
    (3, ("--mode=validate", "--validate_rows=100")),
    (3, ("--mode=validate", "--baseline=eval.tfrecord")),
    (3, ("--mode=evaluate",)),
    (3, ("--mode=predict", "--predict_output=out.jsonl")),
    (2, ("--mode=predict", f"--export_dir=model/{EXPORT}", "--predict_dir=out", "--spec=")),
    (3, ("--mode=train", "--model_dir=new", "--epochs=1", "--max_steps=3")),
    (1, ("--mode=train", "--max_steps=6")),
)
_POLICIES = (
    (),
    (),
    (),
    ("--corrupt_data_policy=skip_record",),
    ("--corrupt_data_policy=quarantine",),
)


def draw(rng: random.Random, place: Place) -> Drawn:
    """Changes one to three files, and draws a mode that reads them."""
    run = rng.choices([run for _, run in _RUNS], [weight for weight, _ in _RUNS])[0]
    if run[0] in ("--mode=evaluate", "--mode=predict") or "--max_steps=6" in run:
        place.bring("model")
    done = []
    for name in rng.sample(_FILES, rng.choice((0, 1, 1, 1, 2, 3))):
        content = place.read(name)
        packed = name.endswith(".gz")
        if rng.random() < 0.35:
            what, content = draws.damaged(rng, content)
        else:
            records = payloads(gzip.decompress(content) if packed else content)
            what, content = _rewritten(rng, records)
            content = gzip.compress(content, mtime=0) if packed else content
        place.write(name, content)
        done.append(f"{name}: {what}")
    policy = rng.choice(_POLICIES) if run[0] != "--mode=analyze" else ()
    return Drawn(["--flagfile=run.flags", *run, *policy], "; ".join(done) or "nothing")


def payloads(content: bytes) -> list[bytes]:
    """The payloads of a whole file."""
    found, at = [], 0
    while at < len(content):
        (size,) = struct.unpack_from("<Q", content, at)
        found.append(content[at + 12 : at + 12 + size])
        at += 16 + size
    return found


def framed(payload: bytes, *, length: int = -1) -> bytes:
    """A record with correct checksums. `length` replaces the correct length."""
    head = struct.pack("<Q", len(payload) if length < 0 else length)
    checksums = [struct.pack("<I", framing.masked(part)) for part in (head, payload)]
    return head + checksums[0] + payload + checksums[1]


# Of records; TensorFlow would reserve what a length says.
_LENGTHS = (0, 1, 2**16, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)


def _rewritten(rng: random.Random, records: Sequence[bytes]) -> tuple[str, bytes]:
    """The records, some of them with another payload or a wrong length in a correct frame."""
    frames = [framed(record) for record in records]
    done = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(frames))
        what = rng.choice(("payload",) * 2 + ("message",) * 3 + ("length", "frame", "many"))
        if what == "payload":
            anything = rng.randbytes(rng.choice((0, 1, 2, 10, 100)))
            frames[at] = framed(rng.choice((anything, draws.damaged(rng, records[at])[1])))
        elif what == "message":
            frames[at] = framed(_message(rng))
        elif what == "length":
            length = rng.choice(_LENGTHS)
            frames[at] = framed(records[at], length=length)
            what += f" {length}"
        elif what == "frame":
            frames[at] = draws.damaged(rng, frames[at])[1]
        else:
            kind = _message(rng)
            frames = [framed(kind if rng.random() < 0.9 else record) for record in records]
        done.append(f"record {at}: {what}")
    return "; ".join(done), b"".join(frames)


_VALUES = {
    "bytes_list": (b"", b"rome", b"\xff\xfe", b"\0", "ä".encode(), b"x" * 3000, b"nan", b"1"),
    "float_list": (0.0, -0.0, 1.5, float("nan"), float("inf"), -1.0, 3e38, 1e-40),
    "int64_list": (0, 1, 2, -1, 2**63 - 1, -(2**63), 2**31),
}


def _message(rng: random.Random) -> bytes:
    """An Example or SequenceExample with other kinds, counts, names or values."""
    import tensorflow as tf

    from input_pipelines.record_files import writing

    row = make_rows(1, seed=rng.randrange(100))[0]
    if rng.random() < 0.2:
        steps = rng.choice(({}, {"tags": ["a"]}, {"tags": []}, {"new": [1, 2]}))
        context = {k: v for k, v in row.items() if rng.random() < 0.8 and k != "tags"}
        record = writing.sequence_example(context, steps)
        return bytes(record.SerializeToString())
    example = writing.example(row)
    stored = example.features.feature
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice([*sorted(stored), "new", "", "\u202e", "label", "click"])
        what = rng.choice(("kind", "kind", "count", "dropped", "empty", "none"))
        if what == "dropped":
            stored.pop(name, None)
            continue
        feature = tf.train.Feature()
        if what != "none":
            kind = rng.choice(sorted(_VALUES))
            if what == "count" and name in stored:
                kind = stored[name].WhichOneof("kind") or kind
            count = rng.choice((0, 1, 2, 3, 50)) if what == "count" else int(what == "kind")
            getattr(feature, kind).SetInParent()
            getattr(feature, kind).value.extend(rng.choice(_VALUES[kind]) for _ in range(count))
        stored[name].CopyFrom(feature)
    return bytes(example.SerializeToString(deterministic=True))
