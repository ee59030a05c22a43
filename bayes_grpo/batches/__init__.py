"""Many logs in one table: fit, forecast and diagnose a folder, resumed after a kill."""
