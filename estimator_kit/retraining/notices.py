"""What tells of cycles: a textfile for Prometheus, a webhook, and HTML pages.

A notice that fails is a warning and does not change the outcome of the cycle. The address of a
webhook is a secret, because it usually has a token in its path. So the kit reads it from a file,
and never writes it into a message.

The pages are `cycles/NNNN/report.html` of a cycle and `history.html` of all cycles. They are made
from what cycles have written and can be made again. Nothing reads them.
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

from estimator_kit.observing import prometheus
from estimator_kit.observing.page import page
from estimator_kit.result import read_result
from estimator_kit.retraining import cycle_files, cycle_report, cycle_versions
from estimator_kit.retraining.cycle_files import CycleFolder
from estimator_kit.retraining.cycle_report import Report
from estimator_kit.retraining.data_checks import Drift
from estimator_kit.retraining.promotion import PastVersion, Serving

_log = logging.getLogger("estimator_kit")


def prometheus_text(report: Report, *, model_dir: str, last_success: Optional[float]) -> str:
    """The metrics of a cycle, in Prometheus's text format.

    Args:
      report: the report of the cycle.
      model_dir: the model directory.
      last_success: when the last cycle ran to its end, promoted or refused, in seconds since 1970;
        None before the first.
    """
    gauges = prometheus.Gauges("estimator_kit_retraining", model_dir)
    gauge = gauges.add
    gauge("last_success_timestamp_seconds", "End of the last whole cycle.", {(): last_success})
    gauge("cycle", "Number of the latest cycle.", {(): float(report.cycle)})
    went_live = report.outcome == "promoted" and report.promoted_as is None
    gauge("promoted", "Whether the latest cycle went live.", {(): went_live})
    failed = report.outcome in ("failed", "stopped")
    gauge("failed", "Whether it ended before the gate.", {(): failed})
    gauge("live_version", "The version that is served.", {(): report.live_now})
    gauge("rows", "Rows of the training window.", {(): report.window.rows})
    seconds = {(stage,): value for stage, value in report.seconds.items()}
    gauge("stage_seconds", "How long each stage took.", seconds, "stage")
    metrics = {
        (name, whose): value
        for name, both in report.metrics.items()
        for whose, value in (("candidate", both.candidate), ("live", both.live))
    }
    gauge("metric", "Metrics of both models on the same rows.", metrics, "metric", "of")
    return gauges.text()


def call_webhook(
    url_file: str,
    report: Report,
    *,
    timeout_secs: float = 10.0,
    open_url: Callable[..., Any] = urllib.request.urlopen,
) -> None:
    """Sends a report as JSON by POST to the address in a file. A failure is a warning."""
    try:
        with open(url_file, encoding="utf-8") as file:
            url = file.readline().strip()
    except Exception as error:  # Only an OSError's text is sure not to have the file's content.
        why = (isinstance(error, OSError) and error.strerror) or type(error).__name__
        _log.warning("--webhook_url_file=%s cannot be read: %s", url_file, why)
        return
    if not _is_web_address(url):
        _log.warning("--webhook_url_file=%s: expected an http:// or https:// address", url_file)
        return
    try:
        body = json.dumps({"label": report.label, **report.as_json()}).encode()
        request = urllib.request.Request(
            url, data=body, method="POST", headers={"Content-Type": "application/json"}
        )
        with open_url(request, timeout=timeout_secs) as answer:
            answer.read(1)
    except urllib.error.HTTPError as error:
        _log.warning("the webhook of %s answered %d", url_file, error.code)
    except Exception as error:  # The text of the error may have the address.
        _log.warning("the webhook of %s failed: %s", url_file, type(error).__name__)


def _is_web_address(url: str) -> bool:
    try:
        return urllib.parse.urlsplit(url).scheme in ("http", "https")
    except ValueError:  # For example for `http://[`. Its text has the address.
        return False


def write_pages(model_dir: str, serving_dir: Optional[str] = None) -> str:
    """Writes the history, and the page of the newest cycle.

    Args:
      model_dir: the model directory of the retraining.
      serving_dir: the setting.

    Returns:
      The path of the history.
    """
    page.check_installed()
    from estimator_kit.retraining import history_page

    cycles = cycle_files.cycles(model_dir)
    serving = Serving(cycle_files.chosen_serving_dir(serving_dir, model_dir), model_dir)
    if cycles:
        _write_cycle_page(cycles[-1], serving)
    path = os.path.join(model_dir, page.HISTORY)
    reports, versions = [cycle_report.of_cycle(cycle) for cycle in cycles], _versions(serving)
    page.write_sections(
        path,
        os.path.basename(os.path.abspath(model_dir)),
        history_page.headline(reports, versions),
        history_page.sections(reports, [cycle.load(Drift) for cycle in cycles], versions),
    )
    return path


def _write_cycle_page(cycle: CycleFolder, serving: Serving) -> None:
    from estimator_kit.retraining import cycle_page

    has_trained = read_result(cycle.train_dir) is not None
    live = serving.live
    now = {"live_now": live.number if live is not None else None}
    current = cycle_report.of_cycle(cycle).model_copy(update=now)
    page.write_sections(
        cycle.at(page.FILE),
        f"Cycle {current.cycle}",
        current.headline,
        cycle_page.sections(current, cycle.load(Drift)),
        model_dir=cycle.train_dir if has_trained else None,
    )


def _versions(serving: Serving) -> list[tuple[PastVersion, str]]:
    """See `history_page.Versions`."""
    live, canary = serving.live, cycle_versions.waiting_canary(serving)
    named = {each.number: word for each, word in ((live, "live"), (canary, "canary")) if each}
    present = {each.number for each in (*serving.versions(), *serving.canaries.versions())}
    ever = sorted(cycle_versions.versions(serving), key=lambda each: each.number)
    return [
        (each.entry, named.get(each.number, "kept" if each.number in present else "removed"))
        for each in ever
    ]
