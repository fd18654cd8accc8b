#include "base/cpu.h"

#include <unistd.h>

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace hvd {

#if defined(__x86_64__)

namespace {

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers Cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  // __get_cpuid_count reads the highest supported leaf first and returns 0 beyond it.
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

// Inline assembly, because the intrinsic needs -mxsave for the whole file.
uint64_t Xcr0() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

constexpr uint32_t Bit(int n) { return uint32_t{1} << n; }

constexpr bool Has(uint32_t value, uint32_t mask) { return (value & mask) == mask; }

}  // namespace

// x86-64 psABI, section 3.1.1, table 3.1 (micro-architecture levels).
std::string CpuLevel() {
  const Registers leaf1 = Cpuid(1, 0);
  const Registers leaf7 = Cpuid(7, 0);
  const Registers extended = Cpuid(0x80000001, 0);

  // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF-SAHF.
  const bool v2 = Has(leaf1.ecx, Bit(0) | Bit(9) | Bit(13) | Bit(19) | Bit(20) | Bit(23)) &&
                  Has(extended.ecx, Bit(0));
  if (!v2) return "x86_64_v1";

  const bool osxsave = Has(leaf1.ecx, Bit(27));
  const uint64_t xcr0 = osxsave ? Xcr0() : 0;
  const bool ymm = (xcr0 & 0x6) == 0x6;
  // FMA, MOVBE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT.
  const bool v3 = ymm && Has(leaf1.ecx, Bit(12) | Bit(22) | Bit(28) | Bit(29)) &&
                  Has(leaf7.ebx, Bit(3) | Bit(5) | Bit(8)) && Has(extended.ecx, Bit(5));
  if (!v3) return "x86_64_v2";

  const bool zmm = (xcr0 & 0xe6) == 0xe6;
  // AVX512F, AVX512DQ, AVX512CD, AVX512BW, AVX512VL.
  const bool v4 = zmm && Has(leaf7.ebx, Bit(16) | Bit(17) | Bit(28) | Bit(30) | Bit(31));
  return v4 ? "x86_64_v4" : "x86_64_v3";
}

std::string GainfulLevel() {
  std::string level = CpuLevel();
  const bool vbmi2 = Has(Cpuid(7, 0).ecx, Bit(6));
  return level == "x86_64_v4" && !vbmi2 ? "x86_64_v3" : level;
}

// "GenuineIntel", four letters to a register.
bool SocketSharesCache() {
  const Registers leaf0 = Cpuid(0, 0);
  return leaf0.ebx == 0x756e6547 && leaf0.edx == 0x49656e69 && leaf0.ecx == 0x6c65746e;
}

#elif defined(__aarch64__) && defined(__linux__)

// What Armv8.4-A made mandatory and its code uses, in the order of the bits of AT_HWCAP
// (arch/arm64/include/uapi/asm/hwcap.h): fp, asimd, crc32, atomics, asimdrdm, jscvt, fcma, lrcpc,
// dcpop, asimddp, dit, uscat, ilrcpc, flagm. The selector asks for the same.
std::string CpuLevel() {
  uint64_t needed = 0;
  for (const int bit : {0, 1, 7, 8, 12, 13, 14, 15, 16, 20, 24, 25, 26, 27}) {
    needed |= uint64_t{1} << bit;
  }
  return (::getauxval(AT_HWCAP) & needed) == needed ? "neoverse" : "baseline";
}

#else

std::string CpuLevel() { return "baseline"; }

#endif

#if !defined(__x86_64__)
std::string GainfulLevel() { return CpuLevel(); }

// Not known, and of little weight: there are no stores past the caches to choose (StreamCopy).
bool SocketSharesCache() { return false; }
#endif

size_t SecondLevelCacheBytes() {
  const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

bool CpuSupports(std::string_view level) {
  if (level == "baseline") return true;
  const std::string highest = CpuLevel();
  constexpr std::string_view kOrdered = "x86_64_v";
  const bool ordered = highest.starts_with(kOrdered) && level.starts_with(kOrdered);
  return ordered && level.size() == highest.size() ? level <= highest : level == highest;
}

}  // namespace hvd
