// Which operations wait for others whose memory they share.
#include "runtime/memory_in_use.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness.h"
#include "ranks.h"
#include "runtime/checks.h"
#include "runtime/operation.h"
#include "runtime/tensor_table.h"

namespace {

using hvd::Memory;
using hvd::MemoryInUse;
using hvd::Operation;
using hvd::OpKind;
using hvd::Request;
using hvd::TensorTable;

constexpr size_t kPlaces = 64;
using Places = std::array<float, kPlaces>;

std::shared_ptr<Operation> Made(OpKind kind, int64_t count, std::vector<Memory> memory) {
  Request request = hvd::test::RequestFor<float>(kind, "x", {count});
  while (request.tensors.size() < memory.size()) request.tensors.push_back(request.tensors[0]);
  return std::make_shared<Operation>(std::move(request), std::move(memory), std::vector<int64_t>());
}

std::shared_ptr<Operation> InPlace(Places& places, size_t from, int64_t count) {
  return Made(OpKind::kAllreduce, count, {{&places[from], &places[from]}});
}

std::shared_ptr<Operation> Reading(const Places& places, size_t from, int64_t count) {
  return Made(OpKind::kAllgather, count, {{&places[from], nullptr}});
}

using Operations = std::vector<std::shared_ptr<Operation>>;

}  // namespace

TEST(WhoReadsOrWritesWhatIsWrittenWaits) {
  Places places{};
  MemoryInUse memory(0);
  const auto first = InPlace(places, 10, 10);
  EXPECT_TRUE(memory.Claim(first));
  for (const size_t beside : {size_t{0}, size_t{20}}) {
    const auto other = InPlace(places, beside, 10);
    EXPECT_TRUE(memory.Claim(other));
    EXPECT_TRUE(memory.Release(*other).empty());
  }
  const auto reader = Reading(places, 19, 10);
  const auto writer = InPlace(places, 1, 10);
  EXPECT_FALSE(memory.IsFree(reader->request, reader->memory));
  EXPECT_FALSE(memory.Claim(reader));
  EXPECT_FALSE(memory.Claim(writer));
  EXPECT_TRUE(memory.Release(*first) == (Operations{reader, writer}));
  EXPECT_TRUE(memory.Release(*writer).empty());
  EXPECT_TRUE(memory.Claim(Reading(places, 1, 20)));
  EXPECT_FALSE(memory.Claim(InPlace(places, 28, 1)));
}

TEST(WhatIsOnlyReadKeepsNoReaderWaiting) {
  Places places{};
  MemoryInUse memory(0);
  const auto reader = Reading(places, 0, 40);
  EXPECT_TRUE(memory.Claim(reader));
  EXPECT_TRUE(memory.Claim(Reading(places, 0, 40)));
  const auto writer = InPlace(places, 39, 1);
  EXPECT_FALSE(memory.Claim(writer));
  EXPECT_TRUE(memory.Release(*reader).empty());  // there is another one
  EXPECT_TRUE(memory.Release(*reader) == Operations{writer});
}

TEST(OthersDoNotOvertakeWhoWaits) {
  Places places{};
  MemoryInUse memory(0);
  const auto first = InPlace(places, 0, 10);
  const auto second = InPlace(places, 5, 10);
  const auto third = InPlace(places, 12, 10);
  EXPECT_TRUE(memory.Claim(first));
  EXPECT_FALSE(memory.Claim(second));
  EXPECT_FALSE(memory.Claim(third));
  EXPECT_TRUE(memory.Release(*first) == Operations{second});
  EXPECT_TRUE(memory.Release(*second) == Operations{third});
  EXPECT_TRUE(memory.Release(*third).empty());
}

TEST(WhoWaitsAndEndsAllTheSameIsForgotten) {
  Places places{};
  MemoryInUse memory(0);
  const auto first = InPlace(places, 0, 10);
  const auto second = InPlace(places, 0, 10);
  EXPECT_TRUE(memory.Claim(first));
  EXPECT_FALSE(memory.Claim(second));
  EXPECT_TRUE(memory.Release(*second).empty());
  EXPECT_FALSE(memory.IsFree(first->request, first->memory));
  EXPECT_TRUE(memory.Release(*first).empty());
  EXPECT_TRUE(memory.IsFree(first->request, first->memory));
}

TEST(WhoHasWaitedForLongBeginsAllTheSame) {
  Places places{};
  MemoryInUse memory(0);
  const auto first = InPlace(places, 0, 10);
  const auto second = InPlace(places, 0, 10);
  const auto third = InPlace(places, 0, 10);
  EXPECT_TRUE(memory.Claim(first));
  EXPECT_FALSE(memory.Claim(second));
  EXPECT_TRUE(memory.Overdue(std::chrono::hours(1)).empty());
  EXPECT_TRUE(memory.Overdue(std::chrono::milliseconds(0)) == Operations{second});
  EXPECT_FALSE(memory.Claim(third));
  EXPECT_TRUE(memory.Release(*second).empty());  // what the first one has is not given away
  EXPECT_TRUE(memory.Release(*first) == Operations{third});
}

TEST(AJoinFollowsAllThatWait) {
  Places places{};
  MemoryInUse memory(0);
  for (const OpKind kind : {OpKind::kJoin, OpKind::kRemoveProcessSet}) {
    const auto last = Made(kind, 0, {});
    EXPECT_TRUE(memory.Claim(last));
    EXPECT_TRUE(memory.Release(*last).empty());
    const auto first = InPlace(places, 0, 10);
    const auto second = InPlace(places, 0, 10);
    const auto third = InPlace(places, 0, 10);
    const auto beside = InPlace(places, 10, 10);
    EXPECT_TRUE(memory.Claim(first));
    EXPECT_TRUE(memory.Claim(beside));
    EXPECT_FALSE(memory.Claim(second));
    EXPECT_FALSE(memory.Claim(third));
    EXPECT_FALSE(memory.Claim(last));
    EXPECT_TRUE(memory.Release(*beside).empty());
    EXPECT_TRUE(memory.Release(*first) == Operations{second});
    EXPECT_TRUE(memory.Release(*second) == (Operations{third, last}));
    EXPECT_TRUE(memory.Release(*last).empty());
    EXPECT_TRUE(memory.Release(*third).empty());
  }
}

TEST(AJoinWaitsNoLongerThanTheLastBeforeIt) {
  Places places{};
  MemoryInUse memory(0);
  const auto first = InPlace(places, 0, 10);
  const auto second = InPlace(places, 0, 10);
  const auto join = Made(OpKind::kJoin, 0, {});
  EXPECT_TRUE(memory.Claim(first));
  EXPECT_FALSE(memory.Claim(second));
  constexpr std::chrono::milliseconds kLong{2};
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin <= kLong) {
  }
  EXPECT_FALSE(memory.Claim(join));
  EXPECT_TRUE(memory.Overdue(kLong) == (Operations{second, join}));
  EXPECT_FALSE(memory.AnyoneWaits());
  EXPECT_TRUE(memory.Release(*join).empty());
  EXPECT_TRUE(memory.Release(*second).empty());
  EXPECT_TRUE(memory.Release(*first).empty());
}

TEST(ATensorMayBeThereTwiceWithinAnOperation) {
  Places places{};
  MemoryInUse memory(0);
  const auto group = Made(OpKind::kAllreduce, 8,
                          {{&places[8], &places[8]},
                           {places.data(), places.data()},
                           {&places[4], &places[4]},
                           {&places[8], &places[8]}});
  EXPECT_TRUE(memory.Claim(group));
  EXPECT_FALSE(memory.Claim(InPlace(places, 15, 1)));
  EXPECT_TRUE(memory.Claim(InPlace(places, 16, 1)));
  EXPECT_EQ(memory.Release(*group).size(), size_t{1});
}

TEST(ARootOnlyReadsWhatItBroadcastsInPlace) {
  Places places{};
  const auto broadcast = [&](int root) {
    const auto operation = Made(OpKind::kBroadcast, 10, {{places.data(), places.data()}});
    Request request = operation->request;
    request.root = root;
    return std::make_shared<Operation>(std::move(request), operation->memory,
                                       std::vector<int64_t>());
  };
  MemoryInUse root(0);
  EXPECT_TRUE(root.Claim(broadcast(0)));
  EXPECT_TRUE(root.Claim(broadcast(0)));
  EXPECT_FALSE(root.Claim(broadcast(1)));
  MemoryInUse other(1);
  EXPECT_TRUE(other.Claim(broadcast(0)));
  EXPECT_FALSE(other.Claim(broadcast(0)));
}

TEST(OnlyTheRowsOfAResultAreWritten) {
  Places places{};
  MemoryInUse memory(0);
  EXPECT_TRUE(
      memory.Claim(Made(OpKind::kReducescatter, 20, {{places.data(), &places[30], {}, 10}})));
  EXPECT_TRUE(memory.Claim(InPlace(places, 40, 10)));
  EXPECT_FALSE(memory.Claim(InPlace(places, 39, 1)));
  EXPECT_FALSE(memory.Claim(InPlace(places, 19, 1)));
}

TEST(AJoinFollowsWhatIsAboutToBegin) {
  Places places{};
  const auto join = Made(OpKind::kJoin, 0, {});
  std::vector<std::string> begun;
  std::mutex mutex;
  std::thread joining;
  std::unique_ptr<TensorTable> table;
  const auto note = [&](const char* name) {
    const std::lock_guard lock(mutex);
    begun.emplace_back(name);
  };
  table = std::make_unique<TensorTable>(0, [&](const std::shared_ptr<Operation>&) {
    joining = std::thread([&] {
      if (table->Claim(join)) note("join");
    });
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    const auto has_joined = [&] {
      const std::lock_guard lock(mutex);
      return !begun.empty();
    };
    while (!has_joined() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    note("operation");
  });
  const auto add = [&](const char* name) {
    Request request = InPlace(places, 0, 10)->request;
    request.name = name;
    const std::vector<Memory> memory{{places.data(), places.data()}};
    const auto operation =
        std::make_shared<Operation>(std::move(request), memory, std::vector<int64_t>());
    table->Add(operation);
    return table->Claim(operation);
  };
  EXPECT_TRUE(add("first"));
  EXPECT_FALSE(add("second"));
  const std::string key = hvd::OperationKey(0, "first");
  EXPECT_TRUE(table->Start(key) != nullptr);
  table->Finish(key);
  joining.join();
  EXPECT_TRUE(begun == (std::vector<std::string>{"operation", "join"}));
}

// Against a table of who is at each place.
TEST(DrawnOperationsNeverDisturbEachOther) {
  std::mt19937 random(7);
  const auto draw = [&](size_t below) {
    return std::uniform_int_distribution<size_t>(0, below - 1)(random);
  };
  for (int job = 0; job < 200; ++job) {
    Places places{};
    MemoryInUse memory(0);
    std::array<int, kPlaces> readers{};
    std::array<int, kPlaces> writers{};
    struct Begun {
      std::shared_ptr<Operation> operation;
      size_t from;
      size_t count;
      bool writes;
    };
    std::vector<Begun> known;
    std::vector<Begun> running;
    const auto begins = [&](const std::shared_ptr<Operation>& operation) {
      for (const Begun& each : known) {
        if (each.operation != operation) continue;
        for (size_t at = each.from; at < each.from + each.count; ++at) {
          ++(each.writes ? writers : readers)[at];
          EXPECT_TRUE(writers[at] <= 1 && (writers[at] == 0 || readers[at] == 0));
        }
        running.push_back(each);
      }
    };
    const auto end_one = [&] {
      const size_t index = draw(running.size());
      const Begun each = running[index];
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(index));
      for (size_t at = each.from; at < each.from + each.count; ++at) {
        --(each.writes ? writers : readers)[at];
      }
      for (const auto& next : memory.Release(*each.operation)) begins(next);
    };
    for (int step = 0; step < 60; ++step) {
      if (!running.empty() && draw(2) == 0) end_one();
      const size_t from = draw(kPlaces);
      const size_t count = draw(std::min<size_t>(kPlaces - from, 12)) + 1;
      const bool writes = draw(2) == 0;
      const auto operation = writes ? InPlace(places, from, static_cast<int64_t>(count))
                                    : Reading(places, from, static_cast<int64_t>(count));
      known.push_back({operation, from, count, writes});
      if (memory.Claim(operation)) begins(operation);
    }
    size_t ended = 0;
    while (!running.empty()) {
      end_one();
      ++ended;
    }
    EXPECT_TRUE(ended > 0);
    EXPECT_TRUE(memory.Claim(InPlace(places, 0, kPlaces)));  // all have had their turn
  }
}
