"""Several runs together: what settings do, which of two recipes is better, which settings to take next."""
