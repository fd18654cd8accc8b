// Telling the CPU that a loop waits for another core.
#ifndef HVD_TRANSPORT_SHM_PAUSE_H_
#define HVD_TRANSPORT_SHM_PAUSE_H_

namespace hvd {

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_PAUSE_H_
