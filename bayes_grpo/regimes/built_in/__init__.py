"""The regimes of this package, one file each: a module placed here that states ``REGIME`` is one and is found."""
