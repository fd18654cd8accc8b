// How operations are numbered that their callers have not named.
#ifndef HVD_BASE_UNNAMED_NUMBERS_H_
#define HVD_BASE_UNNAMED_NUMBERS_H_

#include <cstdint>

namespace hvd {

// After each join of all ranks the numbers go on with the next multiple of it: ranks that have
// joined early have started fewer operations than the others.
constexpr int64_t kUnnamedAfterJoin = 1'000'000'000'000;

}  // namespace hvd

#endif  // HVD_BASE_UNNAMED_NUMBERS_H_
