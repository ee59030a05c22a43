"""`python -m benchmarks.speed`: see `speed.py`."""

from benchmarks.speed.speed import main

if __name__ == "__main__":
    main()
