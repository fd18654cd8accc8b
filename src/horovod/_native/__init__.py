"""The native module, the core libraries by CPU level, and what the build wrote down."""
