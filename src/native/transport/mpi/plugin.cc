// One MPI plug-in: compiled once for each family, with HVD_MPI_ABI_HEADER naming its declarations.
//
// It is no part of the core and needs the C library alone.
#include "transport/mpi/plugin.h"

#include <dlfcn.h>

#include <type_traits>

#include HVD_MPI_ABI_HEADER

namespace hvd {
namespace {

using abi::Communicator;
using abi::Datatype;
using abi::ErrorHandler;
using abi::Group;
using abi::Request;
using abi::Status;

static_assert(sizeof(Communicator) <= sizeof(hvd_mpi_handle));
static_assert(sizeof(Request) <= sizeof(hvd_mpi_handle));

// Of the messages by which a group finds together; the library keeps them apart from others.
constexpr int kGroupTag = 1;

// What is used of MPI: names, and parameters as the standard has them.
struct Functions {
  int (*get_library_version)(char*, int*);
  int (*error_string)(int, char*, int*);
  int (*initialized)(int*);
  int (*finalized)(int*);
  int (*init_thread)(int*, char***, int, int*);
  int (*query_thread)(int*);
  int (*finalize)();
  int (*comm_idup)(Communicator, Communicator*, Request*);
  int (*comm_group)(Communicator, Group*);
  int (*group_incl)(Group, int, const int*, Group*);
  int (*group_free)(Group*);
  int (*comm_create_group)(Communicator, Group, int, Communicator*);
  int (*comm_set_errhandler)(Communicator, ErrorHandler);
  int (*comm_rank)(Communicator, int*);
  int (*comm_size)(Communicator, int*);
  int (*iallgather)(const void*, int, Datatype, void*, int, Datatype, Communicator, Request*);
  int (*isend)(const void*, int, Datatype, int, int, Communicator, Request*);
  int (*irecv)(void*, int, Datatype, int, int, Communicator, Request*);
  int (*test)(Request*, int*, Status*);
  int (*iprobe)(int, int, Communicator, int*, Status*);
  int (*cancel)(Request*);
};

struct Mpi {
  Functions call{};
  abi::Constants constants{};
};

// Bound once, as a process has one MPI.
Mpi mpi;

Communicator& AsCommunicator(hvd_mpi_handle& handle) {
  return reinterpret_cast<Communicator&>(handle);
}

Request* AsRequest(hvd_mpi_handle* handle) { return reinterpret_cast<Request*>(handle); }

// The order of a level of this family.
int Order(int level) {
  int order = HVD_MPI_SINGLE;
  while (order < HVD_MPI_MULTIPLE && level >= abi::kThreadLevels[order + 1]) ++order;
  return order;
}

const char* Bind(void* library) {
  const auto find = [library](const char* name) { return ::dlsym(library, name); };
  Mpi found;
  const char* lacks = found.constants.Load(find);
  const auto load = [&](const char* name, auto*& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find(name));
    if (function == nullptr && lacks == nullptr) lacks = name;
  };
  Functions& f = found.call;
  load("MPI_Get_library_version", f.get_library_version);
  load("MPI_Error_string", f.error_string);
  load("MPI_Initialized", f.initialized);
  load("MPI_Finalized", f.finalized);
  load("MPI_Init_thread", f.init_thread);
  load("MPI_Query_thread", f.query_thread);
  load("MPI_Finalize", f.finalize);
  load("MPI_Comm_idup", f.comm_idup);
  load("MPI_Comm_group", f.comm_group);
  load("MPI_Group_incl", f.group_incl);
  load("MPI_Group_free", f.group_free);
  load("MPI_Comm_create_group", f.comm_create_group);
  load("MPI_Comm_set_errhandler", f.comm_set_errhandler);
  load("MPI_Comm_rank", f.comm_rank);
  load("MPI_Comm_size", f.comm_size);
  load("MPI_Iallgather", f.iallgather);
  load("MPI_Isend", f.isend);
  load("MPI_Irecv", f.irecv);
  load("MPI_Test", f.test);
  load("MPI_Iprobe", f.iprobe);
  load("MPI_Cancel", f.cancel);
  if (lacks == nullptr) mpi = found;
  return lacks;
}

int Initialize(int level, int* provided) {
  int given = 0;
  const int code = mpi.call.init_thread(nullptr, nullptr, abi::kThreadLevels[level], &given);
  *provided = Order(given);
  return code;
}

int ThreadLevel(int* level) {
  int given = 0;
  const int code = mpi.call.query_thread(&given);
  *level = Order(given);
  return code;
}

int Duplicate(const void* parent, hvd_mpi_handle* communicator, hvd_mpi_handle* request) {
  const Communicator of =
      parent == nullptr ? mpi.constants.world : *static_cast<const Communicator*>(parent);
  return mpi.call.comm_idup(of, &AsCommunicator(*communicator), AsRequest(request));
}

int CreateGroup(const int* ranks, int count, hvd_mpi_handle* communicator) {
  Group all{};
  int code = mpi.call.comm_group(mpi.constants.world, &all);
  if (code != 0) return code;
  Group some{};
  code = mpi.call.group_incl(all, count, ranks, &some);
  if (code == 0) {
    code = mpi.call.comm_create_group(mpi.constants.world, some, kGroupTag,
                                      &AsCommunicator(*communicator));
    mpi.call.group_free(&some);
  }
  mpi.call.group_free(&all);
  return code;
}

const hvd_mpi_plugin kPlugin{
    .version = HVD_MPI_PLUGIN_VERSION,
    .abi = abi::kName,
    .bind = Bind,
    .library_version = [](char* text,
                          int* length) { return mpi.call.get_library_version(text, length); },
    .error_text = [](int code, char* text,
                     int* length) { return mpi.call.error_string(code, text, length); },
    .initialized = [](int* flag) { return mpi.call.initialized(flag); },
    .finalized = [](int* flag) { return mpi.call.finalized(flag); },
    .initialize = Initialize,
    .thread_level = ThreadLevel,
    .finalize = [] { return mpi.call.finalize(); },
    .duplicate = Duplicate,
    .world =
        [](hvd_mpi_handle* communicator) { AsCommunicator(*communicator) = mpi.constants.world; },
    .create_group = CreateGroup,
    .return_errors =
        [](hvd_mpi_handle communicator) {
          return mpi.call.comm_set_errhandler(AsCommunicator(communicator),
                                              mpi.constants.errors_return);
        },
    .rank = [](hvd_mpi_handle communicator,
               int* rank) { return mpi.call.comm_rank(AsCommunicator(communicator), rank); },
    .size = [](hvd_mpi_handle communicator,
               int* size) { return mpi.call.comm_size(AsCommunicator(communicator), size); },
    .all_gather =
        [](const void* out, void* in, int bytes, hvd_mpi_handle communicator,
           hvd_mpi_handle* request) {
          return mpi.call.iallgather(out, bytes, mpi.constants.byte, in, bytes, mpi.constants.byte,
                                     AsCommunicator(communicator), AsRequest(request));
        },
    .send =
        [](const void* out, int bytes, int to, int tag, hvd_mpi_handle communicator,
           hvd_mpi_handle* request) {
          return mpi.call.isend(out, bytes, mpi.constants.byte, to, tag,
                                AsCommunicator(communicator), AsRequest(request));
        },
    .receive =
        [](void* in, int bytes, int from, int tag, hvd_mpi_handle communicator,
           hvd_mpi_handle* request) {
          return mpi.call.irecv(in, bytes, mpi.constants.byte, from < 0 ? abi::kAnySource : from,
                                tag, AsCommunicator(communicator), AsRequest(request));
        },
    .test = [](hvd_mpi_handle* request,
               int* done) { return mpi.call.test(AsRequest(request), done, abi::kStatusIgnore); },
    .probe =
        [](int tag, hvd_mpi_handle communicator, int* found) {
          return mpi.call.iprobe(abi::kAnySource, tag, AsCommunicator(communicator), found,
                                 abi::kStatusIgnore);
        },
    .cancel = [](hvd_mpi_handle* request) { return mpi.call.cancel(AsRequest(request)); },
};

}  // namespace
}  // namespace hvd

extern "C" __attribute__((visibility("default"))) const hvd_mpi_plugin* hvd_mpi_plugin_api() {
  return &hvd::kPlugin;
}
