"""Writing files as a careful tool writes them: whole or not at all, and never over what is no file.

A file appears under its name when it is complete. It is written beside it under a random name that nobody can guess,
opened so that nothing that stands there already is taken for it, and then renamed; a link under the name is replaced
and not followed. What is no regular file (a terminal, a pipe, ``/dev/stdout``) is written into.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from pathlib import Path

from kplan.errors import UsageError

#: Modes of new files. The user's umask takes rights away; snapshots are for nobody else to begin with.
PUBLIC = 0o666
PRIVATE = 0o600
_DESCRIPTOR = r"/dev/fd/(\d{1,9})|/proc/self/fd/(\d{1,9})|/dev/std(out|err)"
_ALREADY_OPEN = {"out": 1, "err": 2}
_HINT = "name a file in a directory that you may write to"


def check_writable(path: str | Path) -> None:
    """Raise UsageError when a file cannot be written, as far as this can be known before there is anything to write."""
    try:
        _check(Path(path))
    except (OSError, ValueError) as error:
        raise _refused(path, error) from None


def write_file(path: str | Path, content: bytes, *, mode: int = PUBLIC) -> None:
    """Write a file, a new one with this mode; raises UsageError when it cannot be written and stays as it was."""
    target = Path(path)
    try:
        _check(target)
        descriptor = _descriptor_of(target)
        if descriptor is not None:
            if sys.stdout is not None:
                sys.stdout.flush()
            _write_all(os.dup(descriptor), content)
        elif _is_special(target):
            _write_into(target, content)
        else:
            _replace(target, content, mode)
    except (OSError, ValueError) as error:
        raise _refused(path, error) from None


def _refused(path: str | Path, error: Exception) -> UsageError:
    if isinstance(error, IsADirectoryError):
        return UsageError(f"cannot write {path}: it is a directory", hint="name a file in it")
    if isinstance(error, FileNotFoundError):
        return UsageError(f"cannot write {path}: there is no such directory", hint="make the directory first")
    why = error.strerror if isinstance(error, OSError) and error.strerror else "no file can have this name"
    return UsageError(f"cannot write {path}: {why[:1].lower()}{why[1:]}", hint=_HINT)


def _check(target: Path) -> None:
    if _descriptor_of(target) is not None:
        return
    if target.is_dir():
        raise IsADirectoryError
    if _is_special(target):
        status = target.stat()
        if stat.S_ISBLK(status.st_mode) or stat.S_ISSOCK(status.st_mode):
            raise OSError(0, "it is a block device or a socket")
        if not os.access(target, os.W_OK):
            raise PermissionError(0, "permission denied")
        return
    directory = target.parent
    if not directory.is_dir():
        raise FileNotFoundError
    if len(os.fsencode(target.name)) > os.pathconf(directory, "PC_NAME_MAX"):
        raise OSError(0, "the name is too long")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise PermissionError(0, "files cannot be made in this directory")


def _descriptor_of(target: Path) -> int | None:
    """Return the number of a file that is open already and has a name as such: opening it anew would lose its place."""
    match_ = re.fullmatch(_DESCRIPTOR, str(target))
    if match_ is None:
        return None
    return _ALREADY_OPEN[match_[3]] if match_[3] else int(match_[1] or match_[2])


def _is_special(target: Path) -> bool:
    """Tell whether something stands there, perhaps behind a link, that is neither a file nor a directory."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _write_into(target: Path, content: bytes) -> None:
    # A pipe that nobody reads is refused at once, and not waited for.
    descriptor = os.open(target, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    os.set_blocking(descriptor, True)
    _write_all(descriptor, content)


def _write_all(descriptor: int, content: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _replace(target: Path, content: bytes, mode: int) -> None:
    existing = _status_of(target)
    temporary = target.with_name(f".kplan-{os.urandom(8).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if existing is not None:
                with contextlib.suppress(OSError):
                    os.fchown(descriptor, existing.st_uid, existing.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(existing.st_mode) & 0o777)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _status_of(target: Path) -> os.stat_result | None:
    """Return the status of the file that is to be replaced; a link has none to keep."""
    try:
        status = target.lstat()
    except FileNotFoundError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None
