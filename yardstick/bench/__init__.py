"""The figures of docs/benchmarks.md. `make bench` measures all of them on this machine and prints them."""
