// What the CPU is: the instruction-set level that it and the operating system support, its caches.
#ifndef HVD_BASE_CPU_H_
#define HVD_BASE_CPU_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace hvd {

// "x86_64_v1" … "x86_64_v4" by the psABI's feature lists, "neoverse", or "baseline" for all others.
// Asked of CPUID and XGETBV.
std::string CpuLevel();

// Whether this CPU runs code of a level, one of those above: x86-64's include the lower ones, and
// all of them the baseline.
bool CpuSupports(std::string_view level);

// The highest level whose kernels this CPU gains from: CpuLevel(), but "x86_64_v3" where vectors of
// 512 bits slow the whole core down, as on Skylake-SP and Cascade Lake. What came later, Ice Lake
// and Zen 4 first, is told by AVX512_VBMI2.
std::string GainfulLevel();

// Whether all cores of a socket share its last-level cache, as Intel's do; AMD's share one among
// the few of a complex. By CPUID's vendor: what hypervisors tell of caches is not always so.
bool SocketSharesCache();

// How much a core's second-level cache holds, by the system; 0 where it does not say.
size_t SecondLevelCacheBytes();

}  // namespace hvd

#endif  // HVD_BASE_CPU_H_
