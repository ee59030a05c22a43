"""What every room may use: errors, files, intervals, text, pictures' frame, compiled programs, slow imports."""
