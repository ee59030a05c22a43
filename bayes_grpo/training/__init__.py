"""Inside a training: a process that follows its rows, and the callback that sends them."""
