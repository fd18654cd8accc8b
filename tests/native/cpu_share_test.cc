// What ranks may use of their machine: the CPUs that they may run on, and the time of their control
// groups.
#include "runtime/cpu_share.h"

#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "harness.h"
#include "ranks.h"
#include "runtime/bootstrap.h"
#include "transport/abort.h"
#include "transport/hash_store.h"

namespace {

namespace fs = std::filesystem;

using hvd::CpuQuota;
using hvd::CpusEach;
using hvd::CpuShare;
using hvd::TightestQuota;

// Folders and files as the kernel shows them.
class GroupTree {
 public:
  GroupTree() : path_(fs::temp_directory_path() / ("hvd-groups-" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~GroupTree() { fs::remove_all(path_); }
  GroupTree(const GroupTree&) = delete;
  GroupTree& operator=(const GroupTree&) = delete;

  void Write(const std::string& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text << '\n';
  }
  void Version1(const std::string& folder, const std::string& quota) const {
    Write(folder + "/cpu.cfs_quota_us", quota);
    Write(folder + "/cpu.cfs_period_us", "100000");
  }
  int64_t Millicpus(std::string_view groups) const {
    const std::optional<CpuQuota> quota = TightestQuota(groups, path_.string());
    return quota ? quota->millicpus : 0;
  }
  std::string Group(std::string_view groups) const {
    return TightestQuota(groups, path_.string()).value_or(CpuQuota{}).group;
  }

 private:
  fs::path path_;
};

// Args: cpus: a bit for each.
CpuShare On(uint8_t cpus, const std::string& machine = "m") {
  return {.machine = machine, .cpus = std::string(1, static_cast<char>(cpus)), .quota = {}};
}

CpuShare Within(CpuShare share, const std::string& group, int64_t millicpus) {
  share.quota = CpuQuota{.group = group, .millicpus = millicpus};
  return share;
}

void PinTo(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  EXPECT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
}

using Each = std::vector<int32_t>;

}  // namespace

TEST(TheTightestGroupOfVersion2Counts) {
  const GroupTree tree;
  tree.Write("slice/cpu.max", "250000 100000");
  tree.Write("slice/job/cpu.max", "400000 100000");
  tree.Write("slice/job/step/cpu.max", "max 100000");
  EXPECT_EQ(tree.Millicpus("0::/slice/job/step\n"), 2500);
  EXPECT_EQ(tree.Millicpus("0::/slice/job\n"), 2500);
  EXPECT_EQ(tree.Millicpus("0::/\n"), 0);
  EXPECT_EQ(tree.Millicpus("0::/slice/elsewhere"), 2500);
  EXPECT_EQ(tree.Group("0::/slice/job"), tree.Group("0::/slice"));
}

TEST(ContainersShowTheirGroupAsTheTopmost) {
  const GroupTree tree;
  tree.Write("cpu.max", "50000 100000");
  EXPECT_EQ(tree.Millicpus("0::/\n"), 500);
  EXPECT_EQ(tree.Millicpus("0::/../../outside\n"), 500);
  EXPECT_EQ(tree.Millicpus("0::/docker/1234\n"), 500);
  EXPECT_FALSE(tree.Group("0::/\n").empty());
}

TEST(GroupsOfVersion1AreFoundByTheirController) {
  const GroupTree tree;
  tree.Version1("cpu,cpuacct/a", "150000");
  tree.Version1("cpu,cpuacct/b", "-1");
  tree.Version1("memory/a", "1000");
  EXPECT_EQ(tree.Millicpus("5:memory:/a\n4:cpu,cpuacct:/a\n0::/\n"), 1500);
  EXPECT_EQ(tree.Millicpus("4:cpu,cpuacct:/b\n"), 0);
  EXPECT_EQ(tree.Millicpus("5:memory:/a\n3:cpuset:/a\n"), 0);
  tree.Version1("cpu/a", "120000");
  EXPECT_EQ(tree.Millicpus("4:cpuacct,cpu:/a\n"), 1200);
}

TEST(WhatCannotBeReadIsNoQuota) {
  const GroupTree tree;
  tree.Write("odd/cpu.max", "12x 100000");
  tree.Write("zero/cpu.max", "100000 0");
  tree.Write("short/cpu.max", "100000");
  for (const std::string_view groups :
       {"", "\n", ":", "::", "0::", "0:cpu", "0::/odd", "0::/zero", "0::/short", "0::odd"}) {
    EXPECT_EQ(tree.Millicpus(groups), 0);
  }
}

TEST(RanksOfAMachineShareTheCpusOfAllOfThem) {
  EXPECT_EQ(CpusEach(std::vector{On(0b1111), On(0b1111)}), (Each{2, 2}));
  EXPECT_EQ(CpusEach(std::vector{On(0b0001), On(0b0010)}), (Each{1, 1}));
  EXPECT_EQ(CpusEach(std::vector{On(0b0001), On(0b0001)}), (Each{0, 0}));
  EXPECT_EQ(CpusEach(std::vector{On(0b11), On(0b11), On(0b11)}), (Each{0, 0, 0}));
  EXPECT_EQ(CpusEach(std::vector{On(0b11), On(0b1, "n"), On(0b11)}), (Each{1, 1, 1}));
}

TEST(TheTimeOfAGroupIsForAllRanksThatAreInIt) {
  const CpuShare all = On(0xff);
  EXPECT_EQ(CpusEach(std::vector{Within(all, "a", 2000), Within(all, "a", 2000)}), (Each{1, 1}));
  EXPECT_EQ(CpusEach(std::vector{Within(all, "a", 1999), Within(all, "a", 1999)}), (Each{0, 0}));
  EXPECT_EQ(CpusEach(std::vector{Within(all, "a", 2000), Within(all, "b", 2000)}), (Each{2, 2}));
  EXPECT_EQ(CpusEach(std::vector{Within(all, "a", 500), all}), (Each{0, 0}));
}

TEST(AThreadsOwnCpusAreThoseThatItMayRunOn) {
  std::thread([] {
    const int here = ::sched_getcpu();
    PinTo(here);
    const CpuShare share = hvd::OwnCpuShare();
    EXPECT_EQ(share.cpus.size(), static_cast<size_t>(here) / 8 + 1);
    EXPECT_EQ(share.cpus.back(), static_cast<char>(1 << here % 8));
    EXPECT_FALSE(share.machine.empty());
  }).join();
}

TEST(RanksThatAreBoundToOneCpuDoNotSpin) {
  const int cpu = ::sched_getcpu();
  const auto store = std::make_shared<hvd::HashStore>();
  hvd::test::OnThreads(2, [&](int rank) {
    PinTo(cpu);
    hvd::Abort abort;
    const hvd::Membership membership =
        hvd::Bootstrap(hvd::test::OptionsFor(rank, 2, hvd::TransportChoice::kShm, store), abort);
    EXPECT_FALSE(membership.spin);
    EXPECT_FALSE(membership.spare_cores);
  });
}
