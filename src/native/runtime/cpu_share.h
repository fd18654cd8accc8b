// What a rank may use of its machine's CPUs. Batch systems and containers leave a process some of
// the CPUs (affinity, cpusets), or so much time on all of them (control groups).
#ifndef HVD_RUNTIME_CPU_SHARE_H_
#define HVD_RUNTIME_CPU_SHARE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hvd {

// So much time on CPUs, which all processes of a control group have between them.
struct CpuQuota {
  std::string group;      // equal for processes of the same one, whatever each calls it
  int64_t millicpus = 0;  // thousandths of what one CPU has

  bool operator==(const CpuQuota&) const = default;
};

struct CpuShare {
  std::string machine;            // equal for processes of one boot of one machine
  std::string cpus;               // on which it may run, a bit for each: of CPU 8 the lowest of [1]
  std::optional<CpuQuota> quota;  // the tightest of the groups that it is in

  bool operator==(const CpuShare&) const = default;
};

// Of the calling thread, and of those that it will start.
CpuShare OwnCpuShare();

// The tightest quota of control groups of version 1 or 2. Nothing without one, and where it cannot
// be read.
//
// Args: groups: /proc/self/cgroup. mount: where the groups' folders are, "/sys/fs/cgroup". Inside a
// container this shows the container's group as the topmost, whatever the path that `groups` has.
std::optional<CpuQuota> TightestQuota(std::string_view groups, const std::string& mount);

// By rank: how many CPUs each rank of its machine can have to itself; 0 where they are fewer than
// the ranks that share them.
std::vector<int32_t> CpusEach(std::span<const CpuShare> shares);

}  // namespace hvd

#endif  // HVD_RUNTIME_CPU_SHARE_H_
