"""One module a log format. A module with ``NAME``, ``sniff`` and ``read`` placed here is a reader.

``sniff(source)`` returns `bayes_grpo.logs.parsed.Evidence` or None; ``read(source, options)`` returns
`bayes_grpo.logs.parsed.Parsed`. Nothing else has to be registered.
"""
