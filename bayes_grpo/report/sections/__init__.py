"""One module a question of the page: from a result to its pictures, tables and sentences."""
