"""`python -m benchmarks.forecast`: the backtest, see `backtest.py`."""

from benchmarks.forecast.backtest import main

if __name__ == "__main__":
    main()
