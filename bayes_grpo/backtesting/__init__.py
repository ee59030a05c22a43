"""The forecast at earlier steps of a log, scored on the rows that came."""
