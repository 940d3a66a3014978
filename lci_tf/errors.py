"""The error for mistakes that users can fix: commands report it in one line, without a traceback."""


class InputError(ValueError):
    """A flag, file or data set is not as expected. The message names it, says what was found, and what to do."""
