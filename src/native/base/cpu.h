// What instruction-set level the CPU and the operating system support.
#ifndef HVD_BASE_CPU_H_
#define HVD_BASE_CPU_H_

#include <string>

namespace hvd {

// "x86_64_v1" … "x86_64_v4" by the psABI's feature lists, "neoverse", or "baseline" for all others.
// Asked of CPUID and XGETBV.
std::string CpuLevel();

}  // namespace hvd

#endif  // HVD_BASE_CPU_H_
