"""A file for each start of a sweep: what it ran on."""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from pimloom.arch.error import UserError, one_line
from pimloom.arch.files import json_text
from pimloom.arch.load import load_json
from pimloom.sweeping.store.durable import make_folder, put

RUNS = "runs"


def record_run(folder: Path, facts: Mapping[str, object]) -> Path:
    """Keep the facts of a start (JSON values) as `folder/runs/UTC-RANDOM.json`; the path. UserError if impossible.

    `started_utc` is added unless `facts` has it.
    """
    now = datetime.now(UTC)
    path = folder / RUNS / f"{now:%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(4)}.json"
    text = json_text({"started_utc": now.isoformat(timespec="milliseconds"), **facts})
    try:
        make_folder(path.parent)
        put(path, text.encode())
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UserError(f"cannot write {one_line(path)}: {why}; choose another folder, or make room") from error
    return path


def read_runs(folder: Path) -> list[dict[str, object]]:
    """The facts of every start, oldest first, each with its file name as `file`.

    A file that cannot be read gives `file` and `unreadable`, the reason.
    """
    try:
        paths = sorted(p for p in (folder / RUNS).iterdir() if p.suffix == ".json" and not p.name.startswith("."))
    except OSError:
        return []
    return [{**_facts(path), "file": path.name} for path in paths]


def _facts(path: Path) -> dict[str, object]:
    if path.is_symlink() or not path.is_file():
        return {"unreadable": "not a plain file"}
    try:
        tree = load_json(path)
    except UserError as error:
        return {"unreadable": one_line(error)}
    return tree if isinstance(tree, dict) else {"unreadable": "expected an object"}
