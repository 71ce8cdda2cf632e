"""Files that serve all scenarios of a build and take long to make: made once, by whoever needs one first.

They lie in SALVAGE_NET_KEPT, which the build names, and are made anew when what they depend on has changed;
without it they go with the process that made them.
"""
import atexit
import functools
import hashlib
import os
import pathlib
import shutil
import tempfile

from processes import exclusive


@functools.cache
def _folder():
    named = os.environ.get("SALVAGE_NET_KEPT")
    if named:
        pathlib.Path(named).mkdir(parents=True, exist_ok=True)
        return pathlib.Path(named)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="salvage-kept-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def state_of(path):
    """Changes when the file does."""
    return str(path), os.stat(path).st_size, os.stat(path).st_mtime_ns


def kept(name, depends_on, make, seconds):
    """The path of a file that make(path) writes within so many seconds if it isn't there."""
    key = hashlib.sha256(repr(depends_on).encode()).hexdigest()[:16]
    path = _folder() / f"{key}-{name}"
    with exclusive(_folder() / f"{name}.lock", seconds):
        if not path.exists():
            part = path.with_suffix(".part")
            make(part)
            for old in _folder().glob(f"*-{name}"):
                old.unlink()
            part.rename(path)
    return path
