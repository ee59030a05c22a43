"""What learns the numbers that the package ships: one program a table, and the cases that they learn from."""
