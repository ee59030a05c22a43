"""One signal of a run as a regime sees it: its rows, the learning rate on them, and the rows to come."""
