"""Which regime the data favor, by rows that it has not seen."""
