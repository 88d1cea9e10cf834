"""The figures of docs/benchmarks.md: `make bench` measures them all here and now, and prints them."""
