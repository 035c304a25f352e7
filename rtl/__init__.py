"""The same hardware in gates; and, as `pimloom.rtl.emit` and so on, its commands in Python."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pimloom.rtl_api import emit as emit
    from pimloom.rtl_api import list_ as list  # noqa: F401
    from pimloom.rtl_api import power as power
    from pimloom.rtl_api import prove as prove
    from pimloom.rtl_api import synth as synth
    from pimloom.rtl_api import verify as verify

COMMANDS = {
    "emit": "emit", "list": "list_", "power": "power", "prove": "prove", "synth": "synth", "verify": "verify",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in COMMANDS:  # of the porch, which nothing of this room needs
        from pimloom import rtl_api

        return getattr(rtl_api, COMMANDS[name])
    raise AttributeError(f"module 'pimloom.rtl' has no attribute {name!r}")
