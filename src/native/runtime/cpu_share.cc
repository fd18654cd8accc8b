#include "runtime/cpu_share.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <map>

#include "base/first_line.h"
#include "base/str_cat.h"
#include "base/unique_fd.h"

namespace hvd {
namespace {

constexpr size_t kMostCpus = 8192;  // of which Linux knows at most
constexpr int64_t kMilli = 1000;

void Mark(std::string& cpus, size_t cpu) {
  char& bits = cpus[cpu / 8];
  bits = static_cast<char>(static_cast<unsigned char>(bits) | 1U << cpu % 8);
}

bool Allows(const std::string& cpus, size_t cpu) {
  return (static_cast<unsigned char>(cpus[cpu / 8]) >> cpu % 8 & 1U) != 0;
}

std::string AllowedCpus() {
  std::string cpus(kMostCpus / 8, '\0');
  std::array<cpu_set_t, kMostCpus / CPU_SETSIZE> allowed{};
  if (::sched_getaffinity(0, sizeof allowed, allowed.data()) == 0) {
    for (size_t cpu = 0; cpu < kMostCpus; ++cpu) {
      if (CPU_ISSET_S(cpu, sizeof allowed, allowed.data())) Mark(cpus, cpu);
    }
  } else {
    const auto online = static_cast<size_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    for (size_t cpu = 0; cpu < std::min(online, kMostCpus); ++cpu) Mark(cpus, cpu);
  }
  return cpus.substr(0, cpus.find_last_not_of('\0') + 1);
}

std::string ControlGroups() {
  const UniqueFd file(::open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> part{};
  ssize_t length = 0;
  while (file && (length = ::read(file.get(), part.data(), part.size())) > 0) {
    text.append(part.data(), static_cast<size_t>(length));
  }
  return text;
}

std::optional<int64_t> Number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Of this group alone. Both versions give microseconds of CPU in so many microseconds of time.
std::optional<CpuQuota> QuotaOf(const std::string& folder) {
  std::string quota = FirstLine((folder + "/cpu.max").c_str());
  std::string period;
  if (const size_t space = quota.find(' '); space != std::string::npos) {
    period = quota.substr(space + 1);
    quota.resize(space);
  } else {
    quota = FirstLine((folder + "/cpu.cfs_quota_us").c_str());
    period = FirstLine((folder + "/cpu.cfs_period_us").c_str());
  }
  const std::optional<int64_t> used = Number(quota);  // "max" or -1 without a bound
  const std::optional<int64_t> of = Number(period);
  struct stat status{};
  if (!used || !of || *used <= 0 || *of <= 0 || ::stat(folder.c_str(), &status) != 0) return {};
  return CpuQuota{.group = StrCat(status.st_dev, ":", status.st_ino),
                  .millicpus = *used * kMilli / *of};
}

bool Lists(std::string_view controllers, std::string_view name) {
  while (!controllers.empty()) {
    const size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == name) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

int32_t CountTogether(std::span<const CpuShare* const> shares) {
  std::string together;
  for (const CpuShare* share : shares) {
    together.resize(std::max(together.size(), share->cpus.size()));
    for (size_t cpu = 0; cpu < 8 * share->cpus.size(); ++cpu) {
      if (Allows(share->cpus, cpu)) Mark(together, cpu);
    }
  }
  int32_t count = 0;
  for (const char bits : together) count += std::popcount(static_cast<unsigned char>(bits));
  return count;
}

// Args: shares: of one machine.
int32_t CpusOfEach(std::span<const CpuShare* const> shares) {
  struct Group {
    int64_t millicpus = 0;
    int64_t ranks = 0;
  };
  std::map<std::string_view, Group> groups;
  for (const CpuShare* share : shares) {
    if (!share->quota) continue;
    Group& group = groups[share->quota->group];
    group.millicpus = share->quota->millicpus;
    ++group.ranks;
  }
  int64_t each = CountTogether(shares) / static_cast<int64_t>(shares.size());
  for (const auto& [name, group] : groups) {
    each = std::min(each, group.millicpus / (kMilli * group.ranks));
  }
  return static_cast<int32_t>(each);
}

}  // namespace

CpuShare OwnCpuShare() {
  return {.machine = FirstLine("/proc/sys/kernel/random/boot_id"),
          .cpus = AllowedCpus(),
          .quota = TightestQuota(ControlGroups(), "/sys/fs/cgroup")};
}

std::optional<CpuQuota> TightestQuota(std::string_view groups, const std::string& mount) {
  std::optional<CpuQuota> tightest;
  const auto look = [&](const std::string& root, std::string_view path) {
    while (true) {
      const std::optional<CpuQuota> quota = QuotaOf(root + std::string(path));
      if (quota && (!tightest || quota->millicpus < tightest->millicpus)) tightest = quota;
      if (path.empty()) return;
      path = path.substr(0, path.rfind('/'));
    }
  };
  while (!groups.empty()) {
    const size_t end = std::min(groups.find('\n'), groups.size());
    const std::string_view line = groups.substr(0, end);
    groups.remove_prefix(std::min(end + 1, groups.size()));
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string_view path = line.substr(second + 1);
    // A group outside of what the namespace shows has no folder here.
    if (path == "/" || !path.starts_with('/') || path.starts_with("/..")) path = {};
    if (controllers.empty()) look(mount, path);
    if (Lists(controllers, "cpu")) {
      look(StrCat(mount, "/", controllers), path);
      look(mount + "/cpu", path);  // where the folder's name has them in another order
    }
  }
  return tightest;
}

std::vector<int32_t> CpusEach(std::span<const CpuShare> shares) {
  std::map<std::string_view, std::vector<const CpuShare*>> machines;
  for (const CpuShare& share : shares) machines[share.machine].push_back(&share);
  std::map<std::string_view, int32_t> each;
  for (const auto& [machine, of_it] : machines) each[machine] = CpusOfEach(of_it);
  std::vector<int32_t> by_rank;
  by_rank.reserve(shares.size());
  for (const CpuShare& share : shares) by_rank.push_back(each[share.machine]);
  return by_rank;
}

}  // namespace hvd
