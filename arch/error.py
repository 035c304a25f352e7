"""The one error a user can cause."""


class UserError(Exception):
    """One line: what, where, what instead. The CLI prints it on stderr and exits with code 2."""


def of_option(option: str, value: object, why: str) -> UserError:
    """The error of an option. option: its name in Python; value: as given, None to leave it out; why: the reason.

    >>> str(of_option("block_size", 0, "expected at least 1"))
    '--block-size 0: expected at least 1'
    """
    given = "" if value is None else f" {value}"
    return UserError(f"--{option.replace('_', '-')}{given}: {why}")


class GateError(Exception):
    """A hard gate of a study does not hold: all outputs are written, and the CLI exits with code 1.

    found: the result all the same, for who asks in Python.
    """

    def __init__(self, said: str, found: object = None) -> None:
        super().__init__(said)
        self.found = found


def one_line(said: object) -> str:
    r"""Text on one line, with nothing in it that would steer a terminal.

    >>> one_line("a\nb \x1b[31mred")
    'a b \\x1b[31mred'
    """
    text = " ".join(str(said).splitlines())
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
