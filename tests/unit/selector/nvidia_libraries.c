// Libraries with the entry points of libnvidia-ml.so.1 and libcuda.so.1 that the probe calls. Built
// by test_probe_gpu.py with the answers, or the misbehaviour, that a test needs.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef INIT
#define INIT 0
#endif
#ifndef DEVICES
#define DEVICES 2
#endif
#ifndef VERSION
#define VERSION 13010
#endif
#ifndef MISBEHAVE
#define MISBEHAVE
#endif

// Leaves the process id where the test can see whether the process is gone.
static void note_process(void) {
  const char* path = getenv("TEST_PROCESS_FILE");
  FILE* file = path ? fopen(path, "w") : NULL;
  if (file) {
    fprintf(file, "%d", (int)getpid());
    fclose(file);
  }
}

static void hang(void) {
  signal(SIGTERM, SIG_IGN);
  for (;;) pause();
}

static void flood(void) {
  for (;;) puts("all work and no play makes jack a dull boy");
}

static void crash(void) { raise(SIGSEGV); }

static int init(void) {
  note_process();
  (void)hang, (void)flood, (void)crash;
  MISBEHAVE;
  if (getenv("CUDA_VISIBLE_DEVICES") || getenv("LD_PRELOAD") || getenv("PYTHONPATH")) return 77;
  return INIT;
}

#ifdef NVML
int nvmlInit_v2(void) { return init(); }
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  strncpy(text, "590.48.01", size);
  return 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = VERSION;
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = DEVICES;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  *handle = (char*)0 + index + 1;
  return index == 3 ? 15 : 0;
}
int nvmlDeviceGetCudaComputeCapability(void* handle, int* major, int* minor) {
  *major = 8;
  *minor = handle == (void*)1 ? 0 : 6;
  return 0;
}
int nvmlDeviceGetMigMode(void* handle, unsigned* current, unsigned* pending) {
  *current = *pending = handle == (void*)1;
  return 0;
}
#else
int cuDriverGetVersion(int* version) {
  *version = VERSION;
  return 0;
}
int cuInit(unsigned flags) { return init(); }
int cuDeviceGetCount(int* count) {
  *count = DEVICES;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? 8 : 7;
  return 0;
}
#endif
