"""The commands `tenfold eval ...`, found through the entry-point group `tenfold.commands`."""
