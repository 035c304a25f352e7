"""The folder of what is made once."""

import os
from pathlib import Path

from pimloom.arch.error import UserError


def cache_folder() -> Path:
    """Folder of compiled kernels, simulators and tools, of syntheses, proofs and composed texts: $PIMLOOM_CACHE, else
    below $XDG_CACHE_HOME or ~/.cache.

    Raises UserError if it cannot be made.
    """
    own, base = os.environ.get("PIMLOOM_CACHE"), os.environ.get("XDG_CACHE_HOME")
    try:
        found = Path(own or Path(base or Path.home() / ".cache") / "pimloom").absolute()
    except RuntimeError:
        raise UserError("there is no home folder to keep results in; set PIMLOOM_CACHE to a folder") from None
    try:
        found.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot keep results in {found}: {error.strerror}; set PIMLOOM_CACHE to a folder") from None
    return found
