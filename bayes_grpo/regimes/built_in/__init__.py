"""The regimes of this package, one module each, of its name: one that states ``REGIME`` is found."""
