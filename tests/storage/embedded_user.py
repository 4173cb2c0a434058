"""A process that uses the embedded server: prints the server's pid, then appends numbers until it is killed.

`python -m tests.storage.embedded_user DATA_DIR LIST`; the server has acknowledged every printed number.
"""

import itertools
import sys
import time
from pathlib import Path

from redis import Redis

from callsheet.storage.embedded import server as embedded


def main() -> None:
    data_dir, name = Path(sys.argv[1]), sys.argv[2]
    lease = embedded.ensure_running(data_dir)
    with Redis.from_url(lease.url) as server:
        print_line(server.info("server")["process_id"])
        for number in itertools.count():
            server.rpush(name, number)
            print_line(number)
            # Leaves the processors to other processes.
            time.sleep(0.002)


def print_line(value: object) -> None:
    sys.stdout.write(f"{value}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
