#include "transport/mpi/mpi_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "base/error.h"
#include "base/shared_library.h"
#include "base/str_cat.h"
#include "transport/mpi/patience.h"

namespace hvd {
namespace {

constexpr std::chrono::milliseconds kBetweenChecks{100};

// Of the process, as MPI is.
constinit std::atomic<bool> started{false};

// For this plug-in alone: another MPI of the process must not find this one's functions.
void* OpenMpi(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): of this thread in glibc
    throw Error(Error::Kind::kIo,
                StrCat("MPI cannot be opened: ", reason == nullptr ? library.c_str() : reason));
  }
  return handle;
}

}  // namespace

MpiLibrary MpiLibrary::Open(const std::string& plugin, const std::string& library) {
  hvd_mpi_plugin_entry entry = nullptr;
  SharedLibrary::Open({plugin}).Load(HVD_MPI_PLUGIN_ENTRY, entry);
  const hvd_mpi_plugin* functions = entry();
  if (functions->version != HVD_MPI_PLUGIN_VERSION) {
    throw Error(Error::Kind::kIo,
                StrCat(plugin, " has version ", functions->version, ", the core needs ",
                       HVD_MPI_PLUGIN_VERSION,
                       ": the files are of different releases; reinstall horovod-variants"));
  }
  if (const char* lacks = functions->bind(OpenMpi(library)); lacks != nullptr) {
    throw Error(Error::Kind::kIo, StrCat(library, " lacks ", lacks, ", which the plug-in for ",
                                         functions->abi, " needs"));
  }
  return MpiLibrary(*functions);
}

std::string MpiLibrary::Version() const {
  std::vector<char> text(HVD_MPI_TEXT_BYTES);
  int length = 0;
  if (plugin_->library_version(text.data(), &length) != 0) return "unknown";
  const auto end = std::find_if(text.begin(), text.end(),
                                [](char c) { return c == '\n' || c == '\r' || c == '\0'; });
  return {text.begin(), end};
}

void MpiLibrary::Check(int code, const char* call) const {
  if (code == 0) return;
  std::vector<char> text(HVD_MPI_TEXT_BYTES);
  int length = 0;
  const bool known = plugin_->error_text(code, text.data(), &length) == 0;
  throw Error(Error::Kind::kIo, StrCat(call, ": ", known ? text.data() : "unknown error",
                                       " (MPI's code ", code, ")"));
}

void MpiLibrary::Initialize(MpiThreads wanted) const {
  int flag = 0;
  Check(plugin_->finalized(&flag), "MPI_Finalized");
  if (flag != 0) {
    throw Error(Error::Kind::kIo, "MPI has been finalized in this process, and cannot start again");
  }
  Check(plugin_->initialized(&flag), "MPI_Initialized");
  if (flag != 0) return;
  int provided = 0;
  Check(plugin_->initialize(static_cast<int>(wanted), &provided), "MPI_Init_thread");
  started = true;
}

void MpiLibrary::Finalize() const {
  if (!started.exchange(false)) return;
  int flag = 0;
  Check(plugin_->finalized(&flag), "MPI_Finalized");
  if (flag == 0) Check(plugin_->finalize(), "MPI_Finalize");
}

MpiThreads MpiLibrary::threads() const {
  int level = 0;
  Check(plugin_->thread_level(&level), "MPI_Query_thread");
  return static_cast<MpiThreads>(level);
}

void MpiLibrary::Wait(hvd_mpi_handle* request, const Deadline& deadline,
                      const std::string& what) const {
  Patience patience(std::chrono::milliseconds(1));
  auto next_check = Deadline::Clock::now();
  int done = 0;
  while (true) {
    Check(plugin_->test(request, &done), "MPI_Test");
    if (done != 0) return;
    if (const auto now = Deadline::Clock::now(); now >= next_check) {
      deadline.Check(what);
      next_check = now + kBetweenChecks;
    }
    patience.Pause();
  }
}

}  // namespace hvd
