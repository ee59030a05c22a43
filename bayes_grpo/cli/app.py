"""The command line: parse, call one public function, print.

Exit codes: 0 success; 2 wrong usage, such as a wrong value of a flag; 3 bad input or place to write; 4 the sampler did
not converge (the result is printed and written all the same, and says so); 5 a failure is as probable as ``diagnose
--fail-on`` asks, or was found by ``watch --until-alarm`` (the result is printed all the same); 130 interrupted, 143
terminated (`bayes_grpo.cli.signals`). ``--json`` writes to standard output and nothing else does; progress and errors
go to standard error.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from shlex import quote
from typing import Annotated, NoReturn

import typer

import bayes_grpo.cli as commands
from bayes_grpo.cli.printing import EXIT_INPUT, EXIT_USAGE
from bayes_grpo.cli.signals import ended_by_signals
from bayes_grpo.common.errors import Argument, BayesGrpoError, BayesGrpoWarning, PriorError, arguments_written
from bayes_grpo.common.imports import modules_in
from bayes_grpo.common.text import plain

HELP_FLAGS = {"help_option_names": ["-h", "--help"]}
_SEVERAL = ("--a", "--b")
FLAGS = {
    "settings": "--set",
    "columns": "--column",
    "refresh_interval": "--refresh",
    "idle": "--idle-timeout",
    "scenario": "scenario",
}
"""Parameter of a public function → its flag, where that has another name."""


def repeat_flags(words: Sequence[str]) -> list[str]:
    """Arguments with ``--a LOG LOG`` written as ``--a LOG --a LOG``, which is all that the parser takes."""
    if words[:1] != ["compare-runs"]:
        return list(words)
    out: list[str] = []
    flag, count = "", 0
    for word in words:
        if word.startswith("-"):
            flag = word if word in _SEVERAL else ""
            count = 0
        elif flag:
            out += [flag] if count else []
            count += 1
        out.append(word)
    return out


COMMANDS = (
    "report", "inspect", "fit", "compare", "forecast", "diagnose", "watch", "sweep", "compare-runs", "batch", "plan",
    "rollouts", "simulate", "mcp",
)  # fmt: skip
"""Each is a function in a module of its name."""


def program(names: Sequence[str] = COMMANDS) -> typer.Typer:
    """The program with these commands; only their modules are imported."""
    app = typer.Typer(
        context_settings=HELP_FLAGS,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        help="Bayesian dynamics of GRPO training runs: a trainer's log in, credible intervals out.",
        epilog="Exit codes: 0 success, 2 wrong usage, 3 bad input, 4 no convergence, 5 failure found "
        "(diagnose --fail-on, watch --until-alarm), 130 interrupted, 143 terminated.",
    )
    for name in names:
        module = name.replace("-", "_")
        made = getattr(modules_in(commands, module)[0], module)
        examples = "".join(f"\n\nbayes-grpo {words}" for words in vars(made)["examples"])
        app.command(name, context_settings=HELP_FLAGS, epilog=f"Examples:{examples}")(made)
    app.callback()(_everywhere)
    return app


def _version(given: bool) -> None:
    if given:
        from importlib.metadata import version

        typer.echo(version("bayes-grpo"))
        raise typer.Exit


def _everywhere(
    version_: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Flags of the program itself; its help is the app's."""


def _flag(parameter: str) -> str:
    return FLAGS.get(parameter, f"--{parameter.replace('_', '-')}")


def _as_flag(argument: Argument) -> str:
    """An argument as a flag: ``--column reward=KEY``."""
    value = f"{argument.entry}={argument.value}" if argument.entry else argument.value
    return f"{_flag(argument.parameter)} {quote(value) if value else ''}".rstrip()


def _fail(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"bayes-grpo: {message}\n")
    raise SystemExit(code)


def main() -> None:
    """All commands; every error that a user can mend is one line on standard error."""
    warnings.filterwarnings("ignore", category=BayesGrpoWarning)  # the summary says the same, in its place
    # A cache of programs that is damaged or full costs the time to compile, and nothing else.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")
    with ended_by_signals(), arguments_written(_as_flag):
        try:
            output = sys.stdout  # typer replaces it where the reader is gone
            try:
                words = sys.argv[1:]
                app = program(words[:1] if words[:1] and words[0] in COMMANDS else COMMANDS)
                app(repeat_flags(words))
            finally:
                gone = sys.stdout is not output
                sys.stdout = output
                output.flush()
                if gone:
                    raise BrokenPipeError
        except BayesGrpoError as error:
            text = error.message
            text = f"{_flag(error.parameter)}: {text}" if error.parameter else text
            _fail(plain(text, 2000), EXIT_USAGE if error.parameter or isinstance(error, PriorError) else EXIT_INPUT)
        except BrokenPipeError:  # the reader closed the pipe
            _discard_output()
            raise SystemExit(0) from None
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            _discard_output()
            _fail(f"standard output: cannot write there ({error.strerror}); free some room", EXIT_INPUT)


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def _discard_output() -> None:
    """Sends what is still to be written nowhere, so that the end of the interpreter does not stumble over it."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
