// Names of this library's threads, as `ps -T`, debuggers and profilers show them.
#ifndef HVD_BASE_THREAD_NAME_H_
#define HVD_BASE_THREAD_NAME_H_

#include <pthread.h>

namespace hvd {

// Of the calling thread; at most 15 bytes.
inline void NameThread(const char* name) {
#if defined(__APPLE__)
  (void)::pthread_setname_np(name);
#else
  (void)::pthread_setname_np(::pthread_self(), name);
#endif
}

}  // namespace hvd

#endif  // HVD_BASE_THREAD_NAME_H_
