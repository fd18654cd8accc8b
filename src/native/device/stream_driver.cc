#include "device/stream_driver.h"

#include <string>

#include "base/error.h"

namespace hvd {
namespace {

// Both drivers have these values.
constexpr int kOutOfMemory = 2;
constexpr int kNotReady = 600;
constexpr int kOtherStreamIsCapturing = 906;  // which forbids the default one
constexpr unsigned kNonBlockingStream = 1;
constexpr unsigned kEventWithoutTiming = 2;

}  // namespace

StreamDriver::StreamDriver(const SharedLibrary& library, const Symbols& symbols)
    : symbols_(symbols) {
  library.Load(symbols.priority_range, priority_range_);
  library.Load(symbols.create_stream, create_stream_);
  library.Load(symbols.destroy_stream, destroy_stream_);
  library.Load(symbols.synchronize_stream, synchronize_stream_);
  library.Load(symbols.stream_wait, stream_wait_);
  library.Load(symbols.create_event, create_event_);
  library.Load(symbols.destroy_event, destroy_event_);
  library.Load(symbols.record, record_);
  library.Load(symbols.query_event, query_event_);
  library.Load(symbols.synchronize_event, synchronize_event_);
  library.LoadIfThere(symbols.is_capturing, is_capturing_);
  library.LoadIfThere(symbols.exchange_capture_mode, exchange_capture_mode_);
  library.Load(symbols.load_module, load_module_);
  library.Load(symbols.unload_module, unload_module_);
  library.Load(symbols.get_function, get_function_);
  library.Load(symbols.launch, launch_);
}

DeviceStream StreamDriver::CreateStream() {
  int least = 0;
  int greatest = 0;  // the smallest number; 0 for both where a device has no priorities
  Check(priority_range_(&least, &greatest), symbols_.priority_range);
  DeviceStream stream = nullptr;
  Check(create_stream_(&stream, kNonBlockingStream, greatest), symbols_.create_stream);
  return stream;
}

void StreamDriver::DestroyStream(DeviceStream stream) noexcept { destroy_stream_(stream); }

void StreamDriver::Synchronize(DeviceStream stream) {
  Check(synchronize_stream_(stream), symbols_.synchronize_stream);
}

DeviceEvent StreamDriver::CreateEvent() {
  DeviceEvent event = nullptr;
  Check(create_event_(&event, kEventWithoutTiming), symbols_.create_event);
  return event;
}

void StreamDriver::DestroyEvent(DeviceEvent event) noexcept { destroy_event_(event); }

void StreamDriver::Record(DeviceEvent event, DeviceStream stream) {
  Check(record_(event, stream), symbols_.record);
}

void StreamDriver::Wait(DeviceStream stream, DeviceEvent event) {
  Check(stream_wait_(stream, event, 0), symbols_.stream_wait);
}

bool StreamDriver::IsDone(DeviceEvent event) {
  const int result = query_event_(event);
  if (result == kNotReady) return false;
  Check(result, symbols_.query_event);
  return true;
}

bool StreamDriver::IsCapturing(DeviceStream stream) {
  if (is_capturing_ == nullptr) return false;
  int status = 0;
  const int result = is_capturing_(stream, &status);
  if (result == kOtherStreamIsCapturing) return true;
  Check(result, symbols_.is_capturing);
  return status != 0;
}

int StreamDriver::ExchangeCaptureMode(int mode) noexcept {
  if (exchange_capture_mode_ != nullptr) (void)exchange_capture_mode_(&mode);
  return mode;
}

void StreamDriver::SynchronizeEvent(DeviceEvent event) {
  Check(synchronize_event_(event), symbols_.synchronize_event);
}

DeviceModule StreamDriver::LoadModule(const void* code) {
  DeviceModule module = nullptr;
  Check(load_module_(&module, code), symbols_.load_module);
  return module;
}

void StreamDriver::UnloadModule(DeviceModule module) noexcept { unload_module_(module); }

DeviceFunction StreamDriver::Function(DeviceModule module, const char* name) {
  DeviceFunction function = nullptr;
  Check(get_function_(&function, module, name), name);
  return function;
}

void StreamDriver::Launch(DeviceFunction function, const Grid& grid, DeviceStream stream,
                          void** arguments) {
  Check(launch_(function, grid.blocks, 1, 1, grid.threads, 1, 1, 0, stream, arguments, nullptr),
        symbols_.launch);
}

void StreamDriver::Check(int result, const char* call) const {
  if (result == 0) return;
  const char* text = ErrorText(result);
  throw Error(Error::Kind::kIo, std::string(call) + ": " +
                                    (text == nullptr ? "unknown error" : text) + " (" + name() +
                                    " error " + std::to_string(result) + ")");
}

void StreamDriver::CheckAllocation(int result, const char* call, size_t bytes) const {
  if (result != kOutOfMemory) return Check(result, call);
  throw Error(Error::Kind::kIo,
              std::string(call) + ": the GPU has no room for " + std::to_string(bytes) +
                  " bytes beside what PyTorch keeps: call torch.cuda.empty_cache() before, or "
                  "leave room with torch.cuda.set_per_process_memory_fraction");
}

}  // namespace hvd
