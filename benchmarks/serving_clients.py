"""Clients for serving.py and new_version.py, in separate processes and without TensorFlow.

    python benchmarks/serving_clients.py REQUESTS.npz ADDRESS SECONDS CLIENTS [RATE]

ADDRESS is `host:port` for gRPC, `http://host:port` for REST. REQUESTS.npz has `records`, the
serialized Examples of one request, and an array `answer_<n>` for each correct prediction. Each
client sends its next request after an answer, or with RATE that many requests a second; the
program then prints `began` first. At the end it prints one JSON line: when each answered request
began (`time.monotonic`; with RATE, when it was due), its seconds since then, the place of its
prediction among the correct ones (-1: none of them), and how many requests failed or got a wrong
prediction.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import numpy as np

from estimator_kit.client import GrpcClient, RestClient, ServingError


def main() -> None:
    path, address, seconds, clients, *rate = sys.argv[1:]
    with np.load(path, allow_pickle=False) as file:
        lengths = np.cumsum(file["lengths"])[:-1]
        records = [part.tobytes() for part in np.split(file["records"], lengths)]
        answers = [file[name] for name in file.files if name.startswith("answer_")]
    kind = RestClient if address.startswith("http") else GrpcClient
    if rate:
        print("began", flush=True)
    first = time.monotonic()
    end = first + float(seconds)
    answered: list[tuple[float, float, int]] = []
    failed: list[str] = []

    def ask() -> None:
        sent = 0
        with kind(address, "ads", timeout_secs=30) as client:
            while (start := time.monotonic()) < end:
                if rate:
                    due = first + sent / float(rate[0])
                    time.sleep(max(0.0, due - start))
                    start = due
                sent += 1
                try:
                    found = client.predict(records)["click/logistic"]
                except ServingError as error:
                    failed.append(str(error))
                    continue
                taken = time.monotonic() - start
                right = [np.allclose(found, answer, atol=1e-5) for answer in answers]
                answered.append((start, taken, right.index(True) if any(right) else -1))

    threads = [threading.Thread(target=ask) for _ in range(int(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    began, taken, which = zip(*answered) if answered else ((), (), ())
    result = {"began": began, "seconds": taken, "answers": which, "failed": failed}
    print(json.dumps({**result, "wrong": which.count(-1)}))


if __name__ == "__main__":
    main()
