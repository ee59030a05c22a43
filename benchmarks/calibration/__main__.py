"""`python -m benchmarks.calibration`: see `calibration.py`."""

from benchmarks.calibration.calibration import main

if __name__ == "__main__":
    main()
