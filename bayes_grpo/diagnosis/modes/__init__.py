"""One module a mode, each with `MODE`: its evidence, its onset, its remedies. Found by being there (`all_modes`)."""
