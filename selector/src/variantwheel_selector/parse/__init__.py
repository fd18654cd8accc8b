"""Pure functions from captured texts to facts; none of them does I/O."""
