"""Inside a training: what follows its rows from a process beside it, and the callback that hands them over."""
