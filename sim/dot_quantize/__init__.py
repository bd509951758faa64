"""Dot units with a quantiser behind them, in a regression: items of two kinds put together."""
