"""Clients for serving.py, in separate processes and without TensorFlow.

    python benchmarks/serving_clients.py REQUESTS.npz ADDRESS SECONDS CLIENTS

ADDRESS is `host:port` for gRPC, `http://host:port` for REST. REQUESTS.npz has `records`, the
serialized Examples of one request, and an array `answer_<n>` for each correct prediction. The
program prints one JSON line: the seconds of each request, and how many requests failed or got a
wrong prediction.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import numpy as np

from estimator_kit.client import GrpcClient, RestClient, ServingError


def main() -> None:
    path, address, seconds, clients = sys.argv[1:]
    with np.load(path, allow_pickle=False) as file:
        lengths = np.cumsum(file["lengths"])[:-1]
        records = [part.tobytes() for part in np.split(file["records"], lengths)]
        answers = [file[name] for name in file.files if name.startswith("answer_")]
    kind = RestClient if address.startswith("http") else GrpcClient
    end = time.monotonic() + float(seconds)
    taken: list[float] = []
    failed: list[str] = []
    wrong: list[int] = []

    def ask() -> None:
        with kind(address, "ads", timeout_secs=30) as client:
            while time.monotonic() < end:
                start = time.perf_counter()
                try:
                    found = client.predict(records)["click/logistic"]
                except ServingError as error:
                    failed.append(str(error))
                    continue
                taken.append(time.perf_counter() - start)
                if not any(np.allclose(found, answer, atol=1e-5) for answer in answers):
                    wrong.append(1)

    threads = [threading.Thread(target=ask) for _ in range(int(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"seconds": taken, "failed": failed, "wrong": len(wrong)}))


if __name__ == "__main__":
    main()
