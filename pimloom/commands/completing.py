"""What a shell may put in the place of a name that is not written out."""

from collections.abc import Callable

Completes = Callable[[str], list[str]]


def names(folder: str, *, several: bool = False) -> Completes:
    """The names in `arch/FOLDER` that begin so; of `several`, like the last one of a list a,b,c."""

    def completes(incomplete: str) -> list[str]:
        from pimloom.arch.names import list_names

        before, comma, begun = incomplete.rpartition(",") if several else ("", "", incomplete)
        return [f"{before}{comma}{name}" for name in list_names(folder) if name.startswith(begun)]

    return completes
