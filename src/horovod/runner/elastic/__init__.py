"""Jobs whose ranks may come and go while they run."""
