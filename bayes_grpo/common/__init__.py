"""What every room may use: errors, files, intervals, seeds, text, pictures' frame, compiled programs, slow imports."""
