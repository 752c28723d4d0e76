"""Who else is told of a cycle: a textfile of Prometheus, and a webhook.

Neither can change what became of the cycle: one that fails is a warning. The address of a webhook
is a secret (it usually has a token in its path), so it is read from a file and is in no message.
"""

from __future__ import annotations

import json
import logging
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any, Optional

from estimator_kit import storage

_log = logging.getLogger("estimator_kit")

# Characters that label values of Prometheus escape.
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def prometheus(
    report: dict[str, Any], *, model_dir: str, last_success: Optional[float]
) -> str:
    """The metrics of a cycle, in Prometheus's text format.

    Args:
      report: of `report.document`.
      model_dir: the model directory. Its name is the label `model` of all of them, its whole path
        the label `model_dir`, by which two of one name are told apart.
      last_success: seconds since 1970 of the last cycle that ran to its end, promoted or refused;
        None before the first.
    """
    path = os.path.abspath(model_dir)
    label = ",".join(
        f'{name}="{value.translate(_ESCAPES)}"'
        for name, value in (("model", os.path.basename(path)), ("model_dir", path))
    )
    lines: list[str] = []

    def gauge(name: str, help_text: str, values: list[tuple[str, Optional[float]]]) -> None:
        there = [(labels, value) for labels, value in values if value is not None]
        if not there:
            return
        name = f"estimator_kit_retraining_{name}"
        lines.extend([f"# HELP {name} {help_text}", f"# TYPE {name} gauge"])
        lines.extend(
            f"{name}{{{label}{f',{labels}' if labels else ''}}} {value:.17g}"
            for labels, value in there
        )

    outcome, live = report["outcome"], report["live_now"]
    gauge("last_success_timestamp_seconds", "End of the last whole cycle.", [("", last_success)])
    gauge("cycle", "Number of the latest cycle.", [("", float(report["cycle"]))])
    gauge("promoted", "Whether the latest cycle went live.", [("", float(outcome == "promoted"))])
    gauge("failed", "Whether it ended before the gate.", [
        ("", float(outcome in ("failed", "stopped")))])  # fmt: skip
    gauge("live_version", "The version that is served.", [("", live)])
    gauge("rows", "Rows of the training window.", [("", report["window"]["rows"])])
    gauge("stage_seconds", "How long each stage took.", [
        (f'stage="{name}"', value) for name, value in report["seconds"].items()])  # fmt: skip
    gauge("metric", "Metrics of both models on the same rows.", [
        (f'metric="{name.translate(_ESCAPES)}",of="{whose}"', value)
        for name, both in report["metrics"].items() for whose, value in both.items()])  # fmt: skip
    return "\n".join(lines) + "\n"


def write_prometheus(path: str, text: str) -> None:
    """Writes the textfile; a failure is a warning."""
    try:
        storage.write_text(os.path.abspath(path), text)
    except Exception as error:
        _log.warning("--prometheus_file=%s could not be written: %s", path, error)


def call_webhook(
    url_file: str,
    report: dict[str, Any],
    *,
    timeout_secs: float,
    open_url: Callable[..., Any] = urllib.request.urlopen,
) -> None:
    """Sends a report as JSON by POST to the address in a file; a failure is a warning."""
    try:
        with open(url_file, encoding="utf-8") as file:
            url = file.readline().strip()
    except Exception as error:  # The text of one that is no OSError may have what is in the file.
        why = (isinstance(error, OSError) and error.strerror) or type(error).__name__
        _log.warning("--webhook_url_file=%s cannot be read: %s", url_file, why)
        return
    if not _is_web_address(url):
        _log.warning("--webhook_url_file=%s: expected an http:// or https:// address", url_file)
        return
    try:
        body = json.dumps(storage.plain(report)).encode()
        request = urllib.request.Request(
            url, data=body, method="POST", headers={"Content-Type": "application/json"}
        )
        with open_url(request, timeout=timeout_secs) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        _log.warning("the webhook of %s answered %d", url_file, error.code)
    except Exception as error:  # Its text may have the address.
        _log.warning("the webhook of %s failed: %s", url_file, type(error).__name__)


def _is_web_address(url: str) -> bool:
    try:
        return urllib.parse.urlsplit(url).scheme in ("http", "https")
    except ValueError:  # As of `http://[`; its text has the address.
        return False
