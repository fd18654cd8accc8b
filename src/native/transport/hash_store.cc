#include "transport/hash_store.h"

#include <chrono>

namespace hvd {

void HashStore::Put(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  values_[key] = value;
  changed_.notify_all();
}

std::string HashStore::Get(const std::string& key, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    deadline.Check("nobody put " + key + " into the store");
    changed_.wait_for(lock, std::chrono::milliseconds(deadline.SliceMs()));
  }
}

}  // namespace hvd
