// Rank 0 is lost while the others start: they say so in a way that lets an elastic job go on.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"
#include "transport/auth.h"
#include "transport/hash_store.h"
#include "transport/socket.h"
#include "transport/socket_address.h"

namespace {

using hvd::Acceptor;
using hvd::Deadline;
using hvd::Error;
using hvd::HashStore;
using hvd::Listener;
using hvd::Runtime;
using hvd::RuntimeOptions;
using hvd::TransportChoice;
using hvd::test::OptionsFor;

// Under which rank 0 says where it is.
constexpr const char* kKey = "g0/coordinator";

void ExpectLost(const RuntimeOptions& options, const std::string& text) {
  try {
    Runtime runtime(options);
    EXPECT_TRUE(false);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kPeerLost);
    EXPECT_TRUE(std::string(error.what()).find(text) != std::string::npos);
  }
}

}  // namespace

TEST(ARankZeroThatHasGoneIsLost) {
  const auto store = std::make_shared<HashStore>();
  {
    const Listener gone("127.0.0.1");
    const std::vector<hvd::Endpoint> nobody{gone.endpoint()};
    store->Put(kKey, hvd::ToString(nobody));
  }
  ExpectLost(OptionsFor(1, 2, TransportChoice::kAuto, store), "rank 0 cannot be reached: ");
}

TEST(ARankZeroThatGoesIsLost) {
  const auto store = std::make_shared<HashStore>();
  const RuntimeOptions options = OptionsFor(1, 2, TransportChoice::kAuto, store);
  Acceptor acceptor(Listener("127.0.0.1"), options.secret, "control:g0");
  store->Put(kKey, hvd::ToString(acceptor.endpoints()));
  std::thread leader([&] {
    (void)acceptor.Next({}, Deadline::After(std::chrono::seconds(20)), "rank 1");  // and close
  });
  ExpectLost(options, "rank 0 at ");
  leader.join();
}

TEST(WhoComesWhenTheStartHasFailedIsToldWhy) {
  const auto store = std::make_shared<HashStore>();
  const auto fails = [&](int rank, int size) {
    return std::thread([&store, rank, size] {
      EXPECT_THROWS(Runtime(OptionsFor(rank, size, TransportChoice::kAuto, store)), Error,
                    "was started for a job of 4 ranks");
    });
  };
  std::thread leader = fails(0, 3);
  fails(1, 4).join();
  leader.join();
  ExpectLost(OptionsFor(2, 3, TransportChoice::kAuto, store), "the job could not start: rank 1 (");
}
