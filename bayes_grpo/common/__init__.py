"""Tools for every room: errors, files, intervals, seeds, text, pictures' frame, compiled programs, slow imports."""
