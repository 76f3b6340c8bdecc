"""Files that are there whole or not at all, and folders that one process writes at a time.

A file is written under a name that nobody can guess, created exclusively in the folder of its
final name, flushed and renamed. A link is followed, so that what it points to is replaced and not
the link; a file that is replaced keeps its permissions. What is no regular file (a device, a pipe)
cannot be replaced and is written directly.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from neuralsolver.errors import FileDamaged, InvalidInput


def write_whole(path: str | Path, content: bytes) -> None:
    """Put `content` under `path`, all of it or nothing."""
    target = Path(os.path.realpath(path))
    before = _stat(target)
    if before is not None and not stat.S_ISREG(before.st_mode):
        with open(target, "wb") as special:  # a folder says so itself
            special.write(content)
        return
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, "wb") as file:
            if before is not None:
                os.chmod(temporary, stat.S_IMODE(before.st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def check_output(path: Path, *inputs: Path | None, field: str = "--output") -> None:
    """Raise InvalidInput, before any work, for a place that cannot be written or is an input."""
    if not path.name or path.is_dir():
        raise InvalidInput(field, "the name of a file", path)
    target = Path(os.path.realpath(path))
    special = target.exists() and not target.is_file()
    if not special and not target.parent.is_dir():
        raise InvalidInput(field, "a file in an existing folder", path)
    if not os.access(target if special else target.parent, os.W_OK):
        raise InvalidInput(field, "a place that may be written", path)
    for given in inputs:
        if given is not None and os.path.realpath(given) == os.path.realpath(path):
            raise InvalidInput(field, "another file than the input", path)


def read_regular(path: Path, largest: int) -> bytes:
    """The content of a regular file of at most `largest` bytes; nothing else is opened."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise FileDamaged(str(path), "a regular file", "a folder, a pipe or a device")
    if found.st_size > largest:
        raise FileDamaged(str(path), f"at most {largest} bytes", f"{found.st_size} bytes")
    return path.read_bytes()


@contextmanager
def exclusive(lock: Path, doing: str) -> Iterator[None]:
    """The right to do what `lock` stands for; it ends with the process, however that ends.

    A second process is refused with InvalidInput, and waits for nothing.
    """
    guard = FileLock(lock, timeout=0)
    while True:
        lock.parent.mkdir(parents=True, exist_ok=True)
        try:
            guard.acquire()
            break
        except FileNotFoundError:  # its owner has just finished and removed the folder
            continue
        except Timeout:
            raise InvalidInput(doing, "no other process that does the same", lock) from None
    try:
        yield
    finally:
        with suppress(OSError):
            lock.unlink()
        guard.release()


def _stat(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
