"""Benchmarks: each is a question with a command; figures are ratios within one run first of all."""
