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
  // The blocks first_block[i] up to first_block[i + 1], not including it, work on item[i].
  unsigned first_block[kPiecesPerLaunch + 1];
};

static_assert(sizeof(Pieces) <= 4080, "with two factors behind it, an argument block of 4 KiB");

}  // namespace hvd

#endif  // HVD_DEVICE_PIECES_H_
