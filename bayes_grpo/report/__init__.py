"""The page: what all other rooms found about a run, several runs or a batch, in one file to open and to send."""
