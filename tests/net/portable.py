"""The program of this build, packed as `make dist` packs it: what a coordinator gives to others."""
import pathlib
import subprocess
import tarfile
import tempfile

from cluster import BINARY
from kept import kept, state_of

PACK_S = 60


def packed():
    """The archive, without what debuggers want."""
    return kept("portable.tar.gz", state_of(BINARY), _pack, PACK_S)


def _pack(path):
    with tempfile.TemporaryDirectory() as folder, tarfile.open(path, "w:gz", compresslevel=1) as pack:
        stripped = pathlib.Path(folder, "salvage")
        subprocess.run(["strip", "-o", str(stripped), BINARY], check=True)
        pack.add(stripped, "salvage/bin/salvage")
