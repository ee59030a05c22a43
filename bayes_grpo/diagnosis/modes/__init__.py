"""One module a mode, each with `MODE`: definition, severity, remedies. Found by being there (`all_modes`)."""
