// The key-value store through which ranks find each other.
#ifndef HVD_TRANSPORT_STORE_H_
#define HVD_TRANSPORT_STORE_H_

#include <string>
#include <vector>

#include "base/deadline.h"

namespace hvd {

class Store {
 public:
  virtual ~Store() = default;

  virtual void Put(const std::string& key, const std::string& value) = 0;

  // The same where these ranks alone ask for the key.
  virtual void PutFor(const std::vector<int>& /*ranks*/, const std::string& key,
                      const std::string& value) {
    Put(key, value);
  }

  // Waits until somebody has put the key. Throws Error (kTimeout) when that does not happen in
  // time.
  virtual std::string Get(const std::string& key, const Deadline& deadline) = 0;

  // This process's address on the network that reaches the store.
  virtual std::string LocalHost() const = 0;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_STORE_H_
