# What the build wrote down about itself.

VERSION: str
LEVELS: tuple[str, ...]  # CPU levels of the kernels in this wheel, lowest first
GPU: str  # "cuda", "hip", or "" for a build without code for GPUs
COMPILER: str
BUILD_TYPE: str
