"""A server of Azure: `python azure_server.py AZURITE` prints its address, and serves."""

import re
import subprocess
import sys
import tempfile

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        options = ["--blobPort", "0", "--location", folder, "--silent", "--disableTelemetry"]
        options += ["--skipApiVersionCheck"]
        with subprocess.Popen([sys.argv[1], *options], stdout=subprocess.PIPE, text=True) as server:
            for line in server.stdout:
                address = re.search(r"listens on (http://\S+)", line)
                if address:
                    print(address[1], flush=True)
                    sys.stdin.read()
                    server.terminate()
