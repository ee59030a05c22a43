"""Names a run's failure with a probability: evidence of each mode, then Bayes' rule over what a log can show."""
