"""The command line: parse, call one public function, print.

Exit codes: 0 success; 2 wrong usage; 3 bad input, setting or place to write; 4 the sampler did not converge (the
result is printed and written all the same, and says so); 5 a failure is as probable as ``diagnose --fail-on`` asks, or
was found by ``watch --until-alarm`` (the result is printed all the same); 130 interrupted, 143 terminated
(`bayes_grpo.cli.entry`). ``--json`` writes to standard output and nothing else does; progress and errors go to standard
error.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer

from bayes_grpo.cli.batch import batch
from bayes_grpo.cli.command import HELP_FLAGS, Command, CommandGroup
from bayes_grpo.cli.compare import compare
from bayes_grpo.cli.compare_runs import compare_runs, each_by_itself
from bayes_grpo.cli.defaults import defaults_for
from bayes_grpo.cli.diagnose import diagnose
from bayes_grpo.cli.entry import ended_by_signals
from bayes_grpo.cli.fit import fit
from bayes_grpo.cli.forecast import forecast
from bayes_grpo.cli.inspect import inspect
from bayes_grpo.cli.mcp import mcp
from bayes_grpo.cli.options import EXIT_INPUT
from bayes_grpo.cli.plan import plan
from bayes_grpo.cli.report import report
from bayes_grpo.cli.rollouts import rollouts
from bayes_grpo.cli.simulate import simulate
from bayes_grpo.cli.stability import stability
from bayes_grpo.cli.sweep import sweep
from bayes_grpo.cli.watch import watch
from bayes_grpo.common.errors import BayesGrpoError, BayesGrpoWarning
from bayes_grpo.common.text import plain

app = typer.Typer(
    cls=CommandGroup,
    context_settings=HELP_FLAGS,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Bayesian dynamics of GRPO training runs: a trainer's log in, credible intervals out.",
    epilog="Exit codes: 0 success, 2 wrong usage, 3 bad input, 4 the sampler did not converge, "
    "5 a limit of diagnose --fail-on is reached or watch --until-alarm has found a failure, 130 interrupted, "
    "143 terminated.",
)
COMMANDS = (
    report, inspect, fit, compare, forecast, diagnose, watch, sweep, compare_runs, batch, plan, stability, rollouts,
    simulate, mcp,
)  # fmt: skip
for made in COMMANDS:
    examples = "".join(f"\n\nbayes-grpo {words}" for words in vars(made)["examples"])
    app.command(cls=Command, context_settings=HELP_FLAGS, epilog=f"Examples:{examples}")(made)


def _version(given: bool) -> None:
    if given:
        typer.echo(version("bayes-grpo"))
        raise typer.Exit


@app.callback()
def _everywhere(
    version_: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Flags of the program itself; its help is the app's."""


def _parameters() -> dict[str, list[str]]:
    """Command → names of its parameters."""
    commands: dict[str, Any] = getattr(typer.main.get_command(app), "commands", {})
    return {name: [p.name for p in command.params] for name, command in commands.items()}


def _fail(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"bayes-grpo: {message}\n")
    raise SystemExit(code)


def main() -> None:
    """All commands; every error that a user can mend is one line on standard error."""
    warnings.filterwarnings("ignore", category=BayesGrpoWarning)  # the summary says the same, in its place
    # A cache of programs that is damaged or full costs the time to compile, and nothing else.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")
    with ended_by_signals():
        try:
            output = sys.stdout  # typer replaces it where the reader is gone
            try:
                words = each_by_itself(sys.argv[1:])
                app(words, default_map=defaults_for(words, _parameters()))
            finally:
                gone, sys.stdout = sys.stdout is not output, output
                output.flush()
                if gone:
                    raise BrokenPipeError
        except BayesGrpoError as error:
            _fail(plain(error, 2000), EXIT_INPUT)
        except BrokenPipeError:  # who read has seen enough
            _let_go_of_output()
            raise SystemExit(0) from None
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            _let_go_of_output()
            _fail(f"standard output: cannot write there ({error.strerror}); free some room", EXIT_INPUT)


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


def _let_go_of_output() -> None:
    """Sends what is still to be written nowhere, so that the end of the interpreter does not stumble over it."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
