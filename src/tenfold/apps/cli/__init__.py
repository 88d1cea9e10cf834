"""The command `tenfold`: a thin layer over sessions and stores that prints text, tables or JSON lines."""
