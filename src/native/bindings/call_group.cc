#include "bindings/call_group.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace hvd {

namespace {

struct Place {
  uintptr_t begin;
  size_t bytes;
};

int Compare(const void* left, const void* right) {
  const uintptr_t a = static_cast<const Place*>(left)->begin;
  const uintptr_t b = static_cast<const Place*>(right)->begin;
  return a < b ? -1 : static_cast<int>(a > b);
}

// Whether some of the tensors lie in the same memory.
bool Overlap(std::span<const View> views) {
  std::vector<Place> places;
  places.reserve(views.size());
  for (const View& view : views) {
    if (const size_t bytes = Bytes(view); bytes != 0) {
      places.push_back({reinterpret_cast<uintptr_t>(view.tensor.data), bytes});
    }
  }
  // Not std::sort, which would add 3 kB to each of a release's modules.
  std::qsort(places.data(), places.size(), sizeof(Place), Compare);
  for (size_t i = 1; i < places.size(); ++i) {
    if (places[i].begin - places[i - 1].begin < places[i - 1].bytes) return true;
  }
  return false;
}

}  // namespace

std::optional<CallGroup> CallGroup::Look(Calls& calls, PyObject* tensors, bool in_place,
                                         Py_ssize_t most) {
  if (!PyList_CheckExact(tensors) && !PyTuple_CheckExact(tensors)) return std::nullopt;
  if (Py_SIZE(tensors) == 0 || Py_SIZE(tensors) > most) return std::nullopt;
  // A tuple of our own: looking at tensors runs code of Python's, which could change a list.
  auto sources = py::reinterpret_steal<py::tuple>(PySequence_Tuple(tensors));
  if (!sources) throw py::error_already_set();
  CallGroup group(std::move(sources), in_place);
  group.views_.reserve(group.sources_.size());
  for (const py::handle tensor : group.sources_) {
    const auto view = hvd::Look(calls, tensor.ptr(), true);
    if (!view || (!in_place && NeedsGradient(calls, tensor.ptr()))) return std::nullopt;
    group.views_.push_back(*view);
    if (view->tensor.device != group.views_.front().tensor.device) return std::nullopt;
  }
  if (in_place && Overlap(group.views_)) return std::nullopt;
  return group;
}

bool CallGroup::KeepMemory(const Calls& calls) {
  kept_ = py::tuple(sources_.size());
  for (size_t i = 0; i < views_.size(); ++i) {
    auto kept = hvd::KeepMemory(calls, sources_[i].ptr(), views_[i]);
    if (!kept) return false;
    kept_[i] = std::move(kept);
  }
  return true;
}

bool CallGroup::MakeResults(Calls& calls) {
  results_ = in_place_ ? sources_ : py::tuple(sources_.size());
  tensors_.reserve(views_.size());
  for (size_t i = 0; i < views_.size(); ++i) {
    const View& view = views_[i];
    void* destination = view.tensor.data;
    if (!in_place_) {
      const NewTensor made = MakeLike(calls, kept_[i].ptr(), view);
      if (made.object == nullptr) return false;
      results_[i] = py::reinterpret_steal<py::object>(made.object);
      destination = made.data;
    }
    tensors_.push_back(Described(view, destination));
  }
  return true;
}

}  // namespace hvd
