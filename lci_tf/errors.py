"""What a user can put right: reported by the commands as one line, without a traceback."""


class InputError(ValueError):
    """A flag, file or data set is not what was expected. The message says which, what came, and what to do."""
