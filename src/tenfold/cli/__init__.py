"""The command `tenfold`: a thin layer over sessions and stores, and the only place that draws on a terminal."""
