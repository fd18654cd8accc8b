// What a kernel works on, shared between the code of the GPU and that of the host.
#ifndef HVD_DEVICE_PIECES_H_
#define HVD_DEVICE_PIECES_H_

namespace hvd {

struct Piece {
  const void* source;
  void* destination;
  unsigned long long elements;
};

// Kernel arguments are limited to 4 KiB on every generation.
inline constexpr int kPiecesPerLaunch = 128;

struct Pieces {
  Piece item[kPiecesPerLaunch];
};

static_assert(sizeof(Pieces) <= 3072, "with two factors behind it, an argument block of 4 KiB");

}  // namespace hvd

#endif  // HVD_DEVICE_PIECES_H_
