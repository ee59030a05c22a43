"""Where the reward goes from here, averaged over regimes."""
