#include "runtime/c_api.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "runtime/runtime.h"
#include "transport/tcp_store.h"

#ifndef HVD_LEVEL
#error "the build sets HVD_LEVEL to the level that the library is compiled for"
#endif

struct hvd_runtime {
  explicit hvd_runtime(const hvd::RuntimeOptions& options) : runtime(options) {}
  hvd::Runtime runtime;
};

namespace {

using hvd::Error;

int32_t Report(Error::Kind kind, const char* text, hvd_error* error) {
  error->kind = static_cast<int32_t>(kind);
  size_t length = std::strlen(text);
  if (length >= sizeof error->text) {
    length = sizeof error->text - 1;
    // Half a UTF-8 character is no text to Python.
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
  }
  std::memcpy(error->text, text, length);
  error->text[length] = '\0';
  return error->kind;
}

// Runs the body of an API function; its exceptions become the function's result.
template <typename Body>
int32_t Guard(hvd_error* error, const Body& body) {
  try {
    body();
    return 0;
  } catch (const Error& e) {
    return Report(e.kind(), e.what(), error);
  } catch (const std::exception& e) {
    return Report(Error::Kind::kInternal, e.what(), error);
  }
}

std::chrono::milliseconds Milliseconds(double seconds) {
  constexpr double kLongest = 30.0 * 86400;
  if (!(seconds > 0)) {
    throw Error(Error::Kind::kInvalid,
                hvd::StrCat("start_timeout must be a positive number of seconds, got ", seconds));
  }
  return std::chrono::milliseconds(
      std::max<int64_t>(1, std::llround(std::min(seconds, kLongest) * 1000)));
}

int32_t Create(const hvd_options* options, hvd_runtime** runtime, hvd_error* error) {
  return Guard(error, [&] {
    hvd::RuntimeOptions o;
    o.rank = options->rank;
    o.size = options->size;
    o.local_size = options->local_size;
    o.host = options->host;
    o.secret.assign(options->secret, options->secret + options->secret_bytes);
    o.generation = options->generation;
    o.transport = hvd::ParseTransportChoice(options->transport);
    o.interface = options->interface;
    o.start_timeout = Milliseconds(options->start_timeout);
    if (options->interrupted != nullptr) {
      o.interrupt = [call = options->interrupted, context = options->interrupt_context] {
        return call(context) != 0;
      };
    }
    const std::string server = options->rendezvous;
    o.open_store = [server, secret = o.secret](const hvd::Deadline& deadline) {
      return std::make_unique<hvd::TcpStore>(hvd::ParseEndpoint(server), secret, deadline);
    };
    *runtime = std::make_unique<hvd_runtime>(o).release();
  });
}

void Destroy(hvd_runtime* runtime) {
  if (runtime != nullptr && !runtime->runtime.InForkedChild()) delete runtime;
}

void Shutdown(hvd_runtime* runtime) {
  hvd_error ignored;
  // Joining its own threads can only fail when the program is broken beyond that.
  (void)Guard(&ignored, [&] { runtime->runtime.Shutdown(); });
}

const char* TransportName(const hvd_runtime* runtime) { return runtime->runtime.transport_name(); }

int32_t IsHomogeneous(const hvd_runtime* runtime) {
  return runtime->runtime.is_homogeneous() ? 1 : 0;
}

hvd::Request RequestFor(const hvd_tensor* tensor, hvd::OpKind kind) {
  const auto code = tensor->dtype;
  const auto dtype = hvd::DTypeFromCode(code);
  if (!dtype) throw Error(Error::Kind::kInvalid, hvd::StrCat("no element type has code ", code));
  hvd::Request request;
  request.name = tensor->name;
  request.kind = kind;
  request.dtype = *dtype;
  request.shape.assign(tensor->shape, tensor->shape + tensor->dimensions);
  return request;
}

int32_t Allreduce(hvd_runtime* runtime, const hvd_tensor* tensor, int32_t op, double prescale,
                  double postscale, int64_t* handle, hvd_error* error) {
  return Guard(error, [&] {
    if (op < 0 || op > static_cast<int32_t>(hvd::ReduceOp::kProduct)) {
      throw Error(Error::Kind::kInvalid, hvd::StrCat("no reduction has code ", op));
    }
    hvd::Request request = RequestFor(tensor, hvd::OpKind::kAllreduce);
    request.op = static_cast<hvd::ReduceOp>(op);
    request.prescale = prescale;
    request.postscale = postscale;
    *handle = runtime->runtime.Enqueue(std::move(request), tensor->source, tensor->destination);
  });
}

int32_t Allgather(hvd_runtime* runtime, const hvd_tensor* tensor, int64_t* handle,
                  hvd_error* error) {
  return Guard(error, [&] {
    *handle = runtime->runtime.Enqueue(RequestFor(tensor, hvd::OpKind::kAllgather), tensor->source,
                                       nullptr);
  });
}

int32_t Broadcast(hvd_runtime* runtime, const hvd_tensor* tensor, int32_t root, int64_t* handle,
                  hvd_error* error) {
  return Guard(error, [&] {
    hvd::Request request = RequestFor(tensor, hvd::OpKind::kBroadcast);
    request.root = root;
    *handle = runtime->runtime.Enqueue(std::move(request), tensor->source, tensor->destination);
  });
}

int32_t Barrier(hvd_runtime* runtime, const char* name, int64_t* handle, hvd_error* error) {
  return Guard(error, [&] {
    hvd::Request request;
    request.name = name;
    request.kind = hvd::OpKind::kBarrier;
    *handle = runtime->runtime.Enqueue(std::move(request), nullptr, nullptr);
  });
}

int32_t Poll(hvd_runtime* runtime, int64_t handle, int32_t* done, hvd_error* error) {
  return Guard(error, [&] { *done = runtime->runtime.Poll(handle) ? 1 : 0; });
}

int32_t Wait(hvd_runtime* runtime, int64_t handle, int64_t timeout_ms, int32_t* done,
             hvd_output* output, hvd_error* error) {
  *done = 0;
  output->data = nullptr;
  return Guard(error, [&] {
    if (!runtime->runtime.WaitFor(handle, timeout_ms)) return;
    *done = 1;
    auto result = runtime->runtime.Take(handle);
    if (!result) return;
    output->data = result->data.release();
    output->dimensions = result->shape.size();
    output->dtype = static_cast<int32_t>(result->dtype);
    std::copy(result->shape.begin(), result->shape.end(), output->shape);
  });
}

void FreeOutput(void* data) { std::free(data); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const hvd_core* hvd_core_api(void) {
  static constexpr hvd_core kCore = {
      .abi_version = HVD_ABI_VERSION,
      .isa = HVD_LEVEL,
      .create = Create,
      .destroy = Destroy,
      .shutdown = Shutdown,
      .transport = TransportName,
      .is_homogeneous = IsHomogeneous,
      .allreduce = Allreduce,
      .allgather = Allgather,
      .broadcast = Broadcast,
      .barrier = Barrier,
      .poll = Poll,
      .wait = Wait,
      .free_output = FreeOutput,
  };
  return &kCore;
}
