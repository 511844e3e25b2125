# SPDX-License-Identifier: MIT
"""Asks an HTTP server for /1, /2, ... over kept connections. Arguments: PORT CONNECTIONS REQUESTS (of each connection).

Reports the requests, and the percentiles of the time until an answer was read. Any answer but 200 ends it.
"""

from __future__ import annotations

import http.client
import sys
import threading
import time


def ask(port: int, first: int, requests: int, times: list[float], failures: list[str]) -> None:
    """One connection's requests."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        for number in range(first, first + requests):
            begun = time.perf_counter()
            connection.request("GET", f"/{number}")
            answer = connection.getresponse()
            answer.read()
            times.append((time.perf_counter() - begun) * 1000)
            if answer.status != http.client.OK:
                failures.append(f"/{number} was answered {answer.status}")
                return
    except (OSError, http.client.HTTPException) as error:
        failures.append(repr(error))
    finally:
        connection.close()


def main() -> None:
    """All connections at once."""
    port, connections, requests = map(int, sys.argv[1:])
    times: list[float] = []
    failures: list[str] = []
    workers = [
        threading.Thread(target=ask, args=(port, 1 + index * requests, requests, times, failures))
        for index in range(connections)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise SystemExit(f"http_load: {failures[0]}")
    times.sort()
    answer = {f"p{share}_ms": times[min(len(times) * share // 100, len(times) - 1)] for share in (50, 90, 99)}
    words = " ".join(f"{name}={value:.3f}" for name, value in answer.items())
    print(f"arenascope report operations={len(times)} {words} latency_of=requests", flush=True)


if __name__ == "__main__":
    main()
