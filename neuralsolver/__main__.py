"""`python -m neuralsolver` and the command `ens`.

A signal that comes while the command itself is still being loaded ends it at once, in one line:
an exception would be turned into others by the modules that are half imported.
"""

import os
import signal
import sys


def main() -> None:
    """Load the command and run it."""
    before = [signal.signal(number, _leave) for number in (signal.SIGINT, signal.SIGTERM)]
    from neuralsolver.cli import main as command

    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGTERM, before[1])
    command()


def _leave(number: int, frame: object) -> None:
    print("ens: interrupted", file=sys.stderr, flush=True)
    os._exit(130)


if __name__ == "__main__":
    main()
