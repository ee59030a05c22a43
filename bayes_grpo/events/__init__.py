"""What happens to a run: events, each defined once, with every border in one table (`bayes_grpo.events.borders`)."""
