"""`python -m bayes_grpo`."""

from bayes_grpo.cli.entry import main

main()
