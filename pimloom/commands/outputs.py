"""Files that a command will write, checked before the work whose results they are to hold."""

import os
from collections.abc import Mapping
from pathlib import Path

from pimloom.arch.error import UserError
from pimloom.arch.files import check_not_read
from pimloom.arch.inputs import note_named

Files = Mapping[str, str | Path | None]  # by their options
STDOUT = ("--json", "--out")  # where `-` is no file
UNKNOWN_COMPRESSION = (".bz2", ".xz", ".lz4", ".zip", ".7z")
OTHER_FORMATS = (".json", ".txt", ".npy", ".parquet", ".xlsx")


def check_outputs(written: Files, read: Files | None = None) -> None:
    """Raise UserError unless all files can be written and differ from one another and from what is read."""
    read = read or {}
    for name in read.values():
        note_named(name)
    taken = {Path(name).resolve(): option for option, name in read.items() if name is not None}
    for option, name in written.items():
        if name is None or (option in STDOUT and str(name) == "-"):
            continue
        file = Path(name)
        if str(file) == "-":
            raise UserError(f"{option} -: expected a file; only --json - is stdout")
        if (other := taken.setdefault(file.resolve(), option)) != option:
            raise UserError(f"{option} {file}: is the file of {other} too; name another")
        _check_writable(file, option)
        if option == "--figure" and file.suffix != ".svg":
            raise UserError(f"--figure {file}: figures are SVG; name a file that ends in .svg")


def check_log(option: str, file: Path | None) -> None:
    """Raise UserError for a log that cannot be, or is named as what it is not. None: no log."""
    if file is not None and (str(file) == "-" or file.suffix in UNKNOWN_COMPRESSION):
        raise UserError(f"{option} {file}: expected a file, plain or .gz or .zst")
    if file is not None and file.suffix in OTHER_FORMATS and option != "--timeline":
        raise UserError(f"{option} {file}: it is CSV; expected a name that ends in .csv, .csv.gz or .csv.zst")


def check_folder(out: str | Path, option: str) -> None:
    """Raise UserError unless files can be written into a folder, which is made if it is missing."""
    folder = Path(out)
    parent = folder.absolute().parent
    _check_reachable(folder, option)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{option} {out}: is a file; name a folder")
    if not parent.is_dir():
        raise UserError(f"{option} {out}: there is no folder {parent}; make it first")
    if not os.access(folder if folder.exists() else parent, os.W_OK):
        raise UserError(f"{option} {out}: not writable; choose another place")


def _check_reachable(path: Path, option: str) -> None:
    """Raise UserError for an output behind a folder that the user may not enter."""
    try:
        path.exists()
    except PermissionError:
        raise UserError(f"{option} {path}: not writable; choose another place") from None


def _check_writable(path: Path, option: str) -> None:
    folder = path.parent
    _check_reachable(path, option)
    if not folder.is_dir():
        raise UserError(f"{option} {path}: there is no folder {folder}; make it first")
    if path.is_dir():
        raise UserError(f"{option} {path}: is a folder; name a file in it")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UserError(f"{option} {path}: not writable; choose another place")
    check_not_read(path, option)
