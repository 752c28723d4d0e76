"""Random wrong values, such as users and programs write them.

A value is never an absolute path and never goes up (`..`), so a case writes only into its folder.
`numbers` has no number between a hundred and the largest ones, so a case does not train for days.
"""

from __future__ import annotations

import copy
import random
import re
from typing import Any

NUMBERS = (
    "0", "-0", "1", "2", "3", "7", "-1", "1.0", "0.5", "1e0", "1e3000", "-1e308", "1e-320", "nan",
    "NaN", "inf", "-inf", "9" * 30, "9" * 5000, "-" + "9" * 30, str(2**63), str(2**64), "1_0",
    "0x1",
    "0b1", "010", "+1", " 1", "1 ", "1,2", "--1", "٣", "Ⅳ", "½", "1e", ".", "-", "True", "none",
)  # fmt: skip

# The largest numbers that are accepted.
LARGE = (str(2**31 - 1), str(2**31), str(2**53 + 1), str(2**63 - 1))

TEXTS = (
    "", " ", "\t", "\n", "a b", "ä", "日本語", "\u202e", "\U0001f600", "\udcff", "a\udc80b", "\0",
    "a\0b",
    "x" * 300, "y" * 20_000, "%s", "%d%n", "{}", "{0}", "{", "}", "[", "]", "[]", "[[]]", "'", '"',
    "''", ",", ",,", "a,a", "=", "a=", "=a", "a=b", ":", "a:b", "a:b=c", "*", "**", "?", "[a-",
    "train-*",
    "*/*", "~", "$HOME", "null", "None", "true", "no", "-", "--", "--mode", "#", "\\", "\\1", "(",
    "(?P<",
    "a{99999}", ".*", ".", "./", "nowhere", "nowhere/x", "words.txt", "words.txt/x", "data",
    "spec.yaml",
    "model", "train-0.tfrecord", "eval.tfrecord", "table.csv", "table.jsonl", "table.parquet",
    "nofs://x",
    "s3://bucket/x", "http://", "hdfs://x/y", "grpc://", "grpc://192.0.2.1:0", "192.0.2.1:1",
    "2026-01-07", "2026-02-30", "7d..2026-01-07", "99999999d..2026-01-07", "2026-01-02..2026-01-01",
    "0001-01-01", "loss", "auc/click", "click", "price", "city",
)  # fmt: skip


def value(rng: random.Random) -> str:
    """A random value for any flag."""
    roll = rng.random()
    if roll < 0.4:
        return rng.choice(NUMBERS)
    if roll < 0.9:
        return rng.choice(TEXTS)
    return "".join(chr(rng.choice((rng.randrange(32, 127), rng.randrange(1, 0x2FFF))))
                   for _ in range(rng.randrange(1, 12)))  # fmt: skip


def safe(text: str) -> str:
    """The text without paths that lead out of the folder."""
    before = None
    while text != before:
        before = text
        text = re.sub(r"(^|[=,\s])(/|file:)+", r"\1", text)
        text = re.sub(r"(^|[=/,:\s])\.\.(?=$|[/,:\s])", r"\1.", text)
    return text


def misspelled(rng: random.Random, word: str) -> str:
    """A word with one letter removed, added, doubled, swapped or changed."""
    at = rng.randrange(max(1, len(word)))
    return rng.choice([
        word[:at] + word[at + 1 :], word[:at] + rng.choice("aez_-. =é") + word[at:],
        word[:at] + word[at : at + 1] + word[at:], word[:at] + word[at:][1::-1] + word[at + 2 :],
        word.upper(), word.replace("_", "-"), word[:at],
    ])  # fmt: skip


def damaged(rng: random.Random, data: bytes, *, most: int = 3) -> tuple[str, bytes]:
    """Bytes with up to `most` damages, and a description."""
    done = []
    for _ in range(rng.randint(1, most)):
        what, data = _damaged_once(rng, data)
        done.append(what)
    return "; ".join(done), data


def _damaged_once(rng: random.Random, data: bytes) -> tuple[str, bytes]:
    at = rng.randrange(len(data)) if data else 0
    end = min(len(data), at + rng.choice((1, 1, 4, 8, 64)))
    what = rng.choice(
        ("flip", "flip", "flip", "cut", "drop", "random", "double", "zero", "empty", "add")
    )
    if what == "flip" and data:
        flipped = bytes([data[at] ^ 1 << rng.randrange(8)])
        return f"bit of byte {at} flipped", data[:at] + flipped + data[at + 1 :]
    if what == "cut":
        return f"cut at {at}", data[:at]
    if what == "drop":
        return f"bytes {at} to {end} dropped", data[:at] + data[end:]
    if what == "random":
        return f"bytes {at} to {end} random", data[:at] + rng.randbytes(end - at) + data[end:]
    if what == "double":
        return f"bytes {at} to {end} doubled", data[:end] + data[at:]
    if what == "zero":
        return f"bytes {at} to {end} zero", data[:at] + bytes(end - at) + data[end:]
    if what == "add":
        return "bytes added at the end", data + rng.randbytes(rng.choice((1, 8, 40)))
    return "emptied", b""


# Values that replace a node of a document.
_NODES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 0.5, -0.0, 1e308, 10**20, 10**400, 2**63, 2**62, 2**31,
    float("nan"), float("inf"), "", " ", "x", "ä", "a b", "\u0000", "\ud800", "price", "city",
    "tags", "click",
    "nowhere", "words.txt", "nowhere.txt", "y" * 5000, [], {}, [[]], [None], [1], ["x"], {"": 1},
    {"x": {}}, [0, 1], [1, 0], [1.5, 1.5], ["rome", "rome"], {"x": [1, {"y": None}]},
)  # fmt: skip


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all nodes of a document except the top."""
    keys: Any = ()
    if isinstance(document, dict):
        keys = list(document)
    elif isinstance(document, list):
        keys = range(len(document))
    found = []
    for key in keys:
        found += [(*path, key), *places(document[key], (*path, key))]
    return found


def node(rng: random.Random) -> Any:
    """A value that replaces a node. It may be changed again."""
    return copy.deepcopy(rng.choice(_NODES))


def changed(rng: random.Random, document: Any, *, most: int = 2) -> tuple[str, Any]:
    """A document with up to `most` changed nodes. The given document may be changed too."""
    done = []
    for _ in range(rng.randint(1, most)):
        paths = places(document)
        if not paths or rng.random() < 0.05:
            done.append("the top replaced")
            document = node(rng)
            continue
        *outer, key = rng.choice(paths)
        around = document
        for part in outer:
            around = around[part]
        done.append(f"{_changed_at(rng, around, key)} at {[*outer, key]}")
    return "; ".join(done), document


def _changed_at(rng: random.Random, around: Any, key: Any) -> str:
    before = around[key]
    is_number = isinstance(before, (int, float)) and not isinstance(before, bool)
    what = rng.choice(("replaced",) * 3 + ("deleted", "moved", "wrapped", "added", "number"))
    if what == "deleted":
        del around[key]
    elif what == "wrapped":
        around[key] = rng.choice(([before], {"x": before}, str(before)))
    elif what == "moved":  # Takes the node of another key, or of another place in the list.
        other = rng.choice(list(around) if isinstance(around, dict) else range(len(around)))
        around[key], around[other] = around[other], before
    elif what == "added":
        if isinstance(around, dict):
            around[misspelled(rng, str(key))] = node(rng)
        else:
            around.insert(key, node(rng))
    elif what == "number" and is_number:
        around[key] = rng.choice((0, -before, before + 1, 2 * before, 2**31, 2**63 - 1, 1e300))
    else:
        around[key] = node(rng)
    return what
