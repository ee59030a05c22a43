"""`python -m benchmarks.status`: see `status.py`."""

from benchmarks.status.status import main

if __name__ == "__main__":
    main()
