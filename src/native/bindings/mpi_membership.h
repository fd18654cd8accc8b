// This process among the ranks of an MPI launcher, as Python sees it.
#ifndef HVD_BINDINGS_MPI_MEMBERSHIP_H_
#define HVD_BINDINGS_MPI_MEMBERSHIP_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/c_api.h"

namespace hvd {

class MpiMembership {
 public:
  MpiMembership(const std::string& core, const std::string& plugin, const std::string& library,
                uintptr_t communicator, const std::vector<int32_t>& ranks, int threads,
                const std::string& host, double timeout);

  const hvd_mpi_job* job() const { return job_; }
  const hvd_mpi_facts& facts() const { return facts_; }

 private:
  const hvd_core& core_;
  hvd_mpi_job* job_ = nullptr;
  hvd_mpi_facts facts_{};
};

void BindMpi(pybind11::module_& module);

}  // namespace hvd

#endif  // HVD_BINDINGS_MPI_MEMBERSHIP_H_
