"""Races: instances x methods -> seconds to a target, interleaved. `python -m benchmarks darcy`."""
