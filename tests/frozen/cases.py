"""Which command runs on which logs: the cheap ones on all, those that sample on a few."""

from collections.abc import Mapping

from tests.frozen.logs import ALIKE, WRITERS

_FEW = "--regimes exponential,flat"
_SAMPLED: Mapping[str, Mapping[str, str]] = {
    "fit": {
        "rising": "{rising} --set schedule=constant --regime exponential",
        "dipped_then_collapsed": "{dipped_then_collapsed} --all-rows",
    },
    "compare": {"rising": f"{{rising}} {_FEW} --no-lfo", "rate_ended": f"{{rate_ended}} {_FEW}"},
    "forecast": {
        "rising": "{rising} --schedule constant --horizon 120 --reach 0.75",
        "dipped_then_collapsed": "{dipped_then_collapsed} --horizon 80",
        "decide_hacked": "{hacked} --horizon 120 --cost-per-step 1 --value-per-reward 5000 --checkpoints 10",
        "decide_at_rest": "{at_rest} --horizon 120 --cost-per-step 1 --value-per-reward 500",
        "part": "{component_lost} --part math_reward --regimes exponential",
        "reference_runs": f"{{rate_1e-06}} --reference-runs {{rate_2e-06}} --reference-runs {{rate_4e-06}} {_FEW}",
        "backtest": f"{{rising}} --backtest {_FEW}",
    },
    "report": {
        "hacked": "{hacked} --out page.html",
        "short": "{short} --out page.html --without fit",
    },
    "watch": {"rising": "{rising} --once --state state", "hacked": "{hacked} --once --until-alarm --state state"},
    "sweep": {"rates": "{rate_1e-06} {rate_2e-06} {rate_4e-06} --vary learning_rate"},
    "compare-runs": {
        "two": "{rising} {hacked}",
        "groups": "--a {healthy_0} {healthy_1} --b {plateau_0} {plateau_1}",
        "by_prompt": "{completions} {other_completions} --by-prompt",
    },
    "batch": {
        "diagnose": "{rising} {flat} {hacked} {empty.jsonl}",
        "forecast": "{rising} {flat} --do forecast --horizon 90",
    },
    "plan": {
        "rising": "{rising} --set learning_rate=1e-6 --learning-rate 2e-6 --refresh 8",
        "measured": "--probe {probe} --learning-rate 1e-5 --refresh 8",
        "stiffness": "--stiffness 3.2 --learning-rate 0.01 --refresh 4 --group-size 8 --prompts-per-step 16",
    },
    "rollouts": {
        "completions": "{completions}",
        "verl": "{verl_completions}",
        "pass_at_k": "{completions} --pass-at-k --right correct",
    },
    "simulate": {"oscillatory": "oscillatory --out new"},
}  # fmt: skip
_INSPECTED = ("hacked", "masked", "rising", "truncated_throughout", "component_lost", "rate_ended", "healthy_0")
"""Of the logs that are written alike, those that are inspected."""
CASES: Mapping[str, str] = {
    **{f"diagnose/{log}": f"diagnose {{{log}}}" for log in WRITERS},
    **{f"inspect/{log}": f"inspect {{{log}}}" for log in WRITERS if log in _INSPECTED or log not in ALIKE},
    **{f"{command}/{n}": f"{command} {words}" for command, cases in _SAMPLED.items() for n, words in cases.items()},
}
"""Command and log, the name of the stored file → words of the command line; a name in braces is a file's."""
