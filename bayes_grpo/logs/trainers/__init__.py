"""One module a trainer, each with `TRAINER`; found by being there (`bayes_grpo.logs.identify`).

`generic` has no signature keys: its keys are tried after those of the trainer that wrote the log, and alone where that
is not known.
"""
