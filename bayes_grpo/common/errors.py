"""Errors and named warnings of the whole package.

Every message says what was expected, what was found, where, and what to do about it.
"""


class BayesGrpoError(Exception):
    """Base class of every error that a user can mend.

    Attributes:
        parameter: The parameter of a public function whose value is wrong, which begins the text; "" where the input
            is at fault.
        message: The text without it.
    """

    def __init__(self, message: object = "", *, parameter: str = "") -> None:
        """An error, of a parameter where one is named."""
        super().__init__(f"{parameter}: {message}" if parameter else str(message))
        self.parameter = parameter
        self.message = str(message)


class LogReadError(BayesGrpoError):
    """A log cannot be read, is not recognized, or holds no usable reward."""


class SettingError(BayesGrpoError, ValueError):
    """A setting, flag or sidecar value is outside its meaning."""


class PriorError(BayesGrpoError, ValueError):
    """A prior override names an unknown parameter or has impossible numbers."""


class FitError(BayesGrpoError):
    """A run cannot be fitted (too few rows, no spread, no such signal)."""


class NotConvergedError(FitError):
    """No sampler reached a regime's posterior, so that nothing can rest on it."""


class FitFileError(BayesGrpoError):
    """A saved fit cannot be read, or belongs to another model or version."""


class OutputError(BayesGrpoError):
    """A result cannot be written to the requested path."""


class MissingExtraError(BayesGrpoError, ImportError):
    """An optional dependency is absent; the message names the extra that brings it."""


class WorkerError(BayesGrpoError):
    """A worker process ended before its task did, or could not be started."""


class BayesGrpoWarning(UserWarning):
    """Base class of the named warnings for doubtful results."""


class ConvergenceWarning(BayesGrpoWarning):
    """The sampler did not pass its convergence checks, even after the retry."""


class ParetoKWarning(BayesGrpoWarning):
    """Importance sampling stood in for more refits than were allowed: leave-one-out is unreliable there."""


class RegimeWarning(BayesGrpoWarning):
    """A regime of another package cannot be used and was left out."""
