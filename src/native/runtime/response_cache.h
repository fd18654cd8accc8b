// Operations that all ranks have asked for alike, under a number in place of their request: the
// coordinator's side. A number is never used twice.
#ifndef HVD_RUNTIME_RESPONSE_CACHE_H_
#define HVD_RUNTIME_RESPONSE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/request.h"

namespace hvd {

class ResponseCache {
 public:
  struct Item {
    Request request;               // of every rank
    std::vector<int64_t> numbers;  // of the response
    std::list<int64_t>::iterator use;
  };

  // Args: capacity: how many operations are kept; 0 for none.
  explicit ResponseCache(size_t capacity) : capacity_(capacity) {}

  // Whether requests of that name may come again; those that were numbered do not.
  bool Accepts(const Request& request) const;

  // Nothing for a number that was removed.
  const Item* Find(int64_t id) const;
  std::optional<int64_t> IdOf(int32_t process_set, const std::string& name) const;

  // Returns the number. There must be room, and none for that name.
  int64_t Add(Request request, std::vector<int64_t> numbers);
  // The operation has run again.
  void Touch(int64_t id);
  void Remove(int64_t id);
  void RemoveProcessSet(int32_t process_set);

  bool has_room() const { return items_.size() < capacity_; }
  // Removes what stands in the way of one more, least recently used first, but for what `in_use`
  // names: if that is all, there is no room. Returns the numbers and process sets.
  std::vector<std::pair<int64_t, int32_t>> MakeRoom(
      const std::function<bool(const Request&)>& in_use);

 private:
  const size_t capacity_;
  int64_t next_id_ = 0;
  std::unordered_map<int64_t, Item> items_;
  std::unordered_map<std::string, int64_t> ids_;  // by OperationKey
  std::list<int64_t> uses_;                       // least recently used first
};

}  // namespace hvd

#endif  // HVD_RUNTIME_RESPONSE_CACHE_H_
