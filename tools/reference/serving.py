"""The page of the HTTP and gRPC interface of `--mode=serve`.

Paths, methods and codes are read from `estimator_kit.serving`. The table of differences from
TensorFlow Serving is the one in the guide: this page includes it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tools.reference.docstrings import code, table
from tools.reference.source import ROOT, Module

GUIDE = "docs/guides/serving.md"
_SERVICES = ("PredictionService", "ModelService")


def serving_page() -> str:
    """Paths of REST, methods of gRPC, codes of errors, and what differs from TensorFlow Serving."""
    rest = Module.load("estimator_kit.serving.rest_app").docstring
    return "\n\n".join(
        [
            "# HTTP and gRPC interface",
            "The server of `--mode=serve` answers the requests of TensorFlow Serving. The guide "
            "[Serving](../guides/serving.md) shows how to use both servers and the client.",
            "## HTTP",
            "A body and an answer are JSON, as in TensorFlow Serving's REST API.",
            f"```text\n{rest.body}\n```",
            "## gRPC",
            table(("service", "method", "answered"), list(_methods())),
            "The server also has `grpc.health.v1.Health` and server reflection.",
            "## Errors",
            "A gRPC error has one of these codes; over HTTP it has the status next to it, and the "
            'body `{"error": "..."}`.',
            table(("gRPC", "HTTP"), [(code(name), status) for name, status in _codes()]),
            "## Differences from TensorFlow Serving",
            "Everything that is not in this table is the same, except the texts of some errors.",
            differences((ROOT / GUIDE).read_text(encoding="utf-8")),
        ]
    )


def _methods() -> Iterator[tuple[str, str, str]]:
    module = Module.load("estimator_kit.serving.grpc_service")
    for service in _SERVICES:
        _, node = module.find(service)
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name[0].isupper():
                answered = "UNIMPLEMENTED" not in ast.unparse(method)
                yield code(service), code(method.name), "yes" if answered else "no (UNIMPLEMENTED)"


def _codes() -> Iterator[tuple[str, str]]:
    _, node = Module.load("estimator_kit.serving.errors").find("HTTP")
    yield from ast.literal_eval(node).items()


def differences(guide: str) -> str:
    """The table of the guide whose last column is about TensorFlow Serving.

    Raises:
      ValueError: the guide has no such table.
    """
    lines = guide.splitlines()
    for i, line in enumerate(lines):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) > 1 and cells[-1] == "TensorFlow Serving":
            end = i
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            return "\n".join(lines[i:end])
    raise ValueError(f"{GUIDE} has no table whose last column is `TensorFlow Serving`.")
