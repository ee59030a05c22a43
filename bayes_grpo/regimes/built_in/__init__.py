"""The regimes of this package, one module each, of its name, with the regime as ``REGIME``."""
