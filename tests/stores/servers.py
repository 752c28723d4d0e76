"""Real servers of stores for tests, each behind a `Proxy`: of S3 (moto), GCS and Azure (Azurite).

`make servers` installs the first two, `make azurite` the third. Tests of a server that is not
installed skip.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hmac
import http.client
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
_INSTALLED = _HERE.parents[1] / ".venv/servers"
_AZURITE = _INSTALLED / "node_modules/.bin/azurite-blob"

# The account of Azurite, and its key, which its documentation gives.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextlib.contextmanager
def _process(script: str, *needed: pathlib.Path) -> Iterator[str]:
    """Runs a script, which prints an address and serves until its input ends."""
    python = _INSTALLED / "bin/python"
    for path in (python, *needed):
        if not path.exists():
            pytest.skip(f"no {path.name} of stores: `make servers azurite` installs all servers")
    process = subprocess.Popen(
        [python, _HERE / script, *needed],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        address = process.stdout.readline().strip()
        if not address:
            raise OSError(f"{script} does not start")
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


@contextlib.contextmanager
def started(scheme: str, folder: str) -> Iterator[tuple[Proxy, dict[str, str]]]:
    """The server of a scheme; see `s3`, `gs` and `az`."""
    with {"s3": s3, "gs": lambda: gs(folder), "az": az}[scheme]() as found:
        yield found


@contextlib.contextmanager
def az() -> Iterator[tuple[Proxy, dict[str, str]]]:
    """The same with Azure."""
    with _process("azure_server.py", _AZURITE) as address, Proxy(address) as proxy:
        _make_container(address)
        yield (
            proxy,
            {
                "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
                "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
                "AZURE_STORAGE_ENDPOINT": f"{proxy.address}/{_ACCOUNT}",
            },
        )


def _make_container(address: str) -> None:
    """Makes `BUCKET`. Without a package for Azure, we sign the request."""
    headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    lines = [f"{name}:{value}" for name, value in headers.items()]
    lines += [f"/{_ACCOUNT}/{_ACCOUNT}/{BUCKET}", "restype:container"]
    text = "PUT" + "\n" * 12 + "\n".join(lines)
    signature = hmac.digest(base64.b64decode(_KEY), text.encode(), "sha256")
    headers["Authorization"] = f"SharedKey {_ACCOUNT}:{base64.b64encode(signature).decode()}"
    connection = http.client.HTTPConnection(address.rpartition("/")[2])
    connection.request("PUT", f"/{_ACCOUNT}/{BUCKET}?restype=container", b"", headers)
    assert connection.getresponse().status == 201
    connection.close()


def _ask(method: str, address: str, body: bytes = b"") -> None:
    urllib.request.urlopen(urllib.request.Request(address, body, method=method)).close()
