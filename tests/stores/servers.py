"""Real servers of stores for tests, each behind a `Proxy`: S3 (moto) and GCS (fake-gcs-server).

Both come from the environment that `make servers` makes, or from the Python that STORE_SERVERS
names. Without them, tests skip.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import urllib.request
from collections.abc import Iterator

import pytest

from tests.stores.proxy import Proxy

BUCKET = "adsdata"
_HERE = pathlib.Path(__file__).parent
_PYTHON = os.environ.get("STORE_SERVERS") or str(_HERE.parents[1] / ".venv/servers/bin/python")


@contextlib.contextmanager
def _process(script: str) -> Iterator[str]:
    """Runs a script, which prints an address and serves until its input ends."""
    if not os.path.exists(_PYTHON):
        pytest.skip("no servers of stores: `make servers` installs them")
    process = subprocess.Popen(
        [_PYTHON, _HERE / script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise OSError(f"{script} does not start with {_PYTHON}")
        yield address
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


@contextlib.contextmanager
def s3() -> Iterator[tuple[Proxy, dict[str, str]]]:
    """A proxy before S3 with the bucket `BUCKET`, and the variables for it."""
    with _process("s3_server.py") as address, Proxy(address) as proxy:
        _ask("PUT", f"{address}/{BUCKET}")
        yield (
            proxy,
            {
                "AWS_ENDPOINT_URL": proxy.address,
                "AWS_ACCESS_KEY_ID": "tests",
                "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests",
                "AWS_REGION": "us-east-1",
            },
        )


@contextlib.contextmanager
def gs(folder: str) -> Iterator[tuple[Proxy, dict[str, str]]]:
    """The same with GCS. The file of its account is written to a folder."""
    with _process("gcs_server.py") as address, Proxy(address, as_json=True) as proxy:
        body = json.dumps({"name": BUCKET}).encode()
        _ask("POST", f"{address}/storage/v1/b?project=tests", body)
        account = os.path.join(folder, "account.json")
        fields = {
            "gcs_base_url": proxy.address,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        pathlib.Path(account).write_text(json.dumps(fields), encoding="utf-8")
        yield proxy, {"GOOGLE_SERVICE_ACCOUNT": account}


def _ask(method: str, address: str, body: bytes = b"") -> None:
    urllib.request.urlopen(urllib.request.Request(address, body, method=method)).close()
