"""One module a kind of file. Readers that a module placed here lists in ``READERS`` are known by that alone."""
