"""Which regime the data favour, by rows that it has not seen."""
