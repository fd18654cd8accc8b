// Threads may take denormal numbers for zeros (torch.set_flush_denormal). Whose thread it is that
// reduces for a rank is chance, and several ranks may reduce the same.
#ifndef HVD_BASE_DENORMALS_H_
#define HVD_BASE_DENORMALS_H_

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace hvd {

// While it lives, arithmetic of its thread, which makes it and ends it, keeps denormal numbers.
class KeptDenormals {
 public:
  KeptDenormals() : flushing_(Get() & kFlushing) {
    if (flushing_ != 0) Set(Get() & ~kFlushing);
  }
  ~KeptDenormals() {
    if (flushing_ != 0) Set(Get() | flushing_);
  }
  KeptDenormals(const KeptDenormals&) = delete;
  KeptDenormals& operator=(const KeptDenormals&) = delete;

 private:
#if defined(__x86_64__)
  using Control = uint32_t;
  static constexpr Control kFlushing = 0x8040;  // MXCSR: results, and operands
  static Control Get() { return _mm_getcsr(); }
  static void Set(Control control) { _mm_setcsr(control); }
#elif defined(__aarch64__)
  using Control = uint64_t;
  static constexpr Control kFlushing = Control{1} << 24 | Control{1} << 19;  // FZ, FZ16
  static Control Get() {
    Control control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
  }
  static void Set(Control control) { __asm__ volatile("msr fpcr, %0" : : "r"(control)); }
#else
  using Control = uint32_t;
  static constexpr Control kFlushing = 0;
  static Control Get() { return 0; }
  static void Set(Control) {}
#endif

  const Control flushing_;
};

}  // namespace hvd

#endif  // HVD_BASE_DENORMALS_H_
