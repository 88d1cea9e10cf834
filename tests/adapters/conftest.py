"""The tests of the adapters run in processes of their own: see `test_hosts`. Each needs its framework."""

collect_ignore = ["hosts"]
