"""`python -m benchmarks.paper PART`: see `paper.py`."""

from benchmarks.paper.paper import main

if __name__ == "__main__":
    main()
