"""The one pipeline: what of a run is computed, in which order, and how the run stands given all of it."""
