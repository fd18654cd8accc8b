// A store in memory, for ranks that are threads of one process.
#ifndef HVD_TRANSPORT_HASH_STORE_H_
#define HVD_TRANSPORT_HASH_STORE_H_

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "transport/store.h"

namespace hvd {

class HashStore : public Store {
 public:
  void Put(const std::string& key, const std::string& value) override;
  std::string Get(const std::string& key, const Deadline& deadline) override;
  std::string LocalHost() const override { return "127.0.0.1"; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_HASH_STORE_H_
