"""The native module, the core library, kernels by CPU level, and what the build wrote down."""
