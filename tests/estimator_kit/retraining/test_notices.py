"""The notices to Prometheus and to a webhook, and that no secret gets into a message."""

from __future__ import annotations

import contextlib
import http.server
import json
import logging
import sys
import threading

import pytest

from estimator_kit.observing import prometheus
from estimator_kit.retraining import notices
from estimator_kit.retraining.cycle_report import Names
from estimator_kit.retraining.gate_stage import Both
from input_pipelines.errors import MissingPackageError
from tests.estimator_kit.retraining import reports

REPORT = reports.report(
    7, "promoted", version=12, live_now=12, seconds={"train": 1.5},
    window=Names(evaluate=["2026-01-07"], rows=5000),
    metrics={"auc/click": Both(candidate=0.75)},
)  # fmt: skip


def test_the_textfile():
    text = notices.prometheus_text(REPORT, model_dir='/runs/a "model"/', last_success=1700000000.0)
    values = [line for line in text.splitlines() if not line.startswith("#")]
    label = r'model="a \"model\"",model_dir="/runs/a \"model\""'
    assert values == [
        f"estimator_kit_retraining_last_success_timestamp_seconds{{{label}}} 1.7e+09",
        f"estimator_kit_retraining_cycle{{{label}}} 7.0",
        f"estimator_kit_retraining_promoted{{{label}}} 1.0",
        f"estimator_kit_retraining_failed{{{label}}} 0.0",
        f"estimator_kit_retraining_live_version{{{label}}} 12.0",
        f"estimator_kit_retraining_rows{{{label}}} 5000.0",
        f'estimator_kit_retraining_stage_seconds{{{label},stage="train"}} 1.5',
        f'estimator_kit_retraining_metric{{metric="auc/click",{label},of="candidate"}} 0.75',
    ]
    report = REPORT.model_copy(update={"outcome": "refused", "live_now": 11})
    refused = notices.prometheus_text(report, model_dir="/m", last_success=None)
    assert 'live_version{model="m",model_dir="/m"} 11.0' in refused
    assert "last_success" not in refused


def test_the_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingPackageError) as error:
        prometheus.check("m.prom")
    assert str(error.value).startswith(
        "--prometheus_file needs the package prometheus_client. Install it with `pip install "
        "'estimator-kit[prometheus]'` ("
    )


def test_models_of_one_name_are_told_apart(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    first, second = (
        notices.prometheus_text(REPORT, model_dir=f"{place}/ads", last_success=None)
        for place in "ab"
    )
    assert f'retraining_cycle{{model="ads",model_dir="{tmp_path}/a/ads"}} 7.0' in first
    lines = set(first.splitlines()) & set(second.splitlines())
    assert all(line.startswith("#") for line in lines)


def test_a_textfile_that_cannot_be_written_is_a_warning(tmp_path, caplog):
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        prometheus.write(str(tmp_path / "file" / "a.prom"), "")
    assert caplog.messages[0].startswith(f"--prometheus_file={tmp_path}/file/a.prom could not be")


@contextlib.contextmanager
def server(status):
    """A server that records its requests: (address, requests)."""
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):  # The name that http.server calls.
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, json.loads(body)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}/hook?token=secret", got
        finally:
            running.shutdown()
            thread.join()


@pytest.mark.parametrize("status", [200, 500])
def test_a_webhook_gets_the_report(tmp_path, caplog, status):
    with server(status) as (url, got), caplog.at_level(logging.WARNING):
        (tmp_path / "url").write_text(f"{url}\n")
        notices.call_webhook(str(tmp_path / "url"), REPORT, timeout_secs=30)
    assert got == [("/hook?token=secret", {"label": "2026-01-07", **REPORT.as_json()})]
    expected = [] if status == 200 else [f"the webhook of {tmp_path}/url answered 500"]
    assert caplog.messages == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http://token@localhost:1/secret", "the webhook of {} failed: URLError"),
        ("file:///etc/passwd", "--webhook_url_file={}: expected an http:// or https:// address"),
        ("http://[SECRET/x", "--webhook_url_file={}: expected an http:// or https:// address"),
        (b"http://h/\xff", "--webhook_url_file={} cannot be read: UnicodeDecodeError"),
        (None, "--webhook_url_file={} cannot be read: No such file or directory"),
    ],
)
def test_a_webhook_that_fails_is_a_warning_without_its_address(tmp_path, caplog, text, message):
    path = tmp_path / "url"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def refuse(request, timeout):
        raise notices.urllib.error.URLError(f"no connection to {request.full_url}")

    with caplog.at_level(logging.WARNING):
        notices.call_webhook(str(path), REPORT, timeout_secs=1, open_url=refuse)
    assert caplog.messages == [message.format(path)]
