"""One module a format of rollouts. A module with ``NAME``, ``sniff`` and ``read`` placed here is a format.

``sniff(place)`` returns the `bayes_grpo.rollouts.place.Part` that it would read, none where the folder is of another
format; ``read(part, asked, damage)`` yields `bayes_grpo.rollouts.completion.Completion` or
`bayes_grpo.rollouts.columns.Block`. Nothing else has to be registered.
"""
