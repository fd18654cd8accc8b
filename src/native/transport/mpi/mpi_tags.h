// The tags of our messages on our communicator.
#ifndef HVD_TRANSPORT_MPI_MPI_TAGS_H_
#define HVD_TRANSPORT_MPI_MPI_TAGS_H_

#include <cstdint>

namespace hvd {

constexpr int kMpiStoreTag = 0;

// Of the data of one runtime. What an earlier one, which had failed, left behind is not taken for
// it. MPI promises tags up to 32767.
inline int MpiDataTag(int64_t generation) { return 1 + static_cast<int>(generation % 32'000); }

}  // namespace hvd

#endif  // HVD_TRANSPORT_MPI_MPI_TAGS_H_
