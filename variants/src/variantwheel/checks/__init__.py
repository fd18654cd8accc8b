"""The checks that a wheel passes before it is released: nothing that it claims is believed."""
