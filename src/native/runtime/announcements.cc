#include "runtime/announcements.h"

#include <utility>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

constexpr uint8_t kFull = 0;
constexpr uint8_t kNumber = 1;

void AnnounceInFull(WireWriter& writer, const Request& request) {
  writer.U8(kFull);
  Write(writer, request);
}

void AnnounceByNumber(WireWriter& writer, int64_t id) {
  writer.U8(kNumber);
  writer.I64(id);
}

}  // namespace

void Announcements::Write(WireWriter& writer, const Announcement& announcement) {
  if (const auto* id = std::get_if<int64_t>(&announcement)) return AnnounceByNumber(writer, *id);
  AnnounceInFull(writer, std::get<Request>(announcement));
}

void Announcements::Announce(WireWriter& writer, const Request& request) {
  Known& known = known_[OperationKey(request.process_set, request.name)];
  known.pending = true;
  if (known.id >= 0 && known.request == request) {
    return AnnounceByNumber(writer, known.id);
  }
  // A name in full ends its number here too, or Forget would announce it a second time.
  if (known.id >= 0) {
    keys_.erase(known.id);
    known.id = -1;
  }
  AnnounceInFull(writer, request);
  known.request = request;
}

Announcement Announcements::Read(WireReader& reader) {
  const uint8_t form = reader.U8();
  if (form == kFull) return ReadRequest(reader);
  if (form == kNumber) return reader.I64();
  throw Error(Error::Kind::kIo, "malformed message: no such form of a request");
}

void Announcements::Learn(Response& response, WireWriter& writer) {
  if (response.kind == OpKind::kRemoveProcessSet && response.error.empty()) {
    const int64_t removed = response.numbers.at(0);
    // The coordinator does not know these numbers any more; asked in full, it refuses.
    for (const auto& [key, known] : known_) {
      if (known.request.process_set != removed || !known.pending || known.id < 0) continue;
      AnnounceInFull(writer, known.request);
    }
    std::erase_if(keys_, [&](const auto& item) {
      return known_.at(item.second).request.process_set == removed;
    });
    std::erase_if(known_,
                  [&](const auto& item) { return item.second.request.process_set == removed; });
  }
  for (size_t i = 0; i < response.names.size(); ++i) {
    const int64_t id = response.ids[i];
    if (response.names[i].empty()) {
      const auto key = keys_.find(id);
      if (key == keys_.end()) {
        throw Error(Error::Kind::kIo, StrCat("malformed message: nothing has the number ", id));
      }
      Known& known = known_.at(key->second);
      known.pending = false;
      response.names[i] = known.request.name;
      continue;
    }
    const auto place = known_.find(OperationKey(response.process_set, response.names[i]));
    if (place == known_.end()) continue;
    Known& known = place->second;
    if (known.id >= 0) keys_.erase(known.id);
    if (id < 0 || !known.pending) {
      known_.erase(place);
      continue;
    }
    known.id = id;
    known.pending = false;
    keys_[id] = place->first;
  }
}

void Announcements::Forget(int64_t id, WireWriter& writer) {
  const auto key = keys_.find(id);
  if (key == keys_.end()) return;
  const auto place = known_.find(key->second);
  keys_.erase(key);
  place->second.id = -1;
  if (!place->second.pending) {
    known_.erase(place);
    return;
  }
  AnnounceInFull(writer, place->second.request);
}

}  // namespace hvd
