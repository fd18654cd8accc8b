// Two ranks of a host that lend each other vectors, for the length of a call.
#ifndef HVD_TRANSPORT_SHM_LENDING_H_
#define HVD_TRANSPORT_SHM_LENDING_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "transport/near_vectors.h"
#include "transport/shm/borrowed_vectors.h"
#include "transport/shm/segment.h"
#include "transport/shm/single_copy.h"
#include "transport/transport.h"
#include "transport/wait_check.h"

namespace hvd {

class Lending {
 public:
  // Args: transport: whose ranks do; outlives this, as secret and check do. segment, channel: its.
  Lending(Transport& transport, const Segment& segment, Channel channel,
          const ProcessSecret& secret, const WaitCheck& check);

  // As Transport has it.
  BothProgress WorkAcross(int other, const Lent& lent, const NearWork& work);

 private:
  // The other one's process, once both have reached the other's memory; else null on both.
  const NearProcess* Meet(int other);
  template <typename Message>
  Message Swap(int other, const Message& own);

  Transport& transport_;
  const Segment& segment_;
  const Channel channel_;
  const ProcessSecret& secret_;
  const WaitCheck& check_;
  std::vector<std::optional<NearProcess>> reached_;  // by rank
  std::unique_ptr<std::byte[]> scratch_;             // for BorrowedVectors
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_LENDING_H_
