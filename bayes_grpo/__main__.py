"""`python -m bayes_grpo`."""

from bayes_grpo.cli.app import main

main()
