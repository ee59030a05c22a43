"""The regimes of this package: a module placed here that states ``REGIMES``, a tuple of them, is found."""
