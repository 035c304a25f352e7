"""The one error a user can cause."""


class UserError(Exception):
    """One line: what, where, what instead. The CLI prints it on stderr and exits with code 2."""
