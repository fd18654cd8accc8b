#include "device/code_files.h"

#include <dirent.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "base/error.h"

namespace hvd {
namespace {

constexpr std::string_view kStem = "kernels.";
constexpr std::string_view kHipBundle = "kernels.hip.bundle";

// 80 for kernels.sm_80.cubin when asked for "sm_" and ".cubin".
std::optional<int> NumberAfter(std::string_view name, std::string_view kind,
                               std::string_view suffix) {
  if (!name.starts_with(kStem)) return std::nullopt;
  name.remove_prefix(kStem.size());
  if (!name.starts_with(kind) || !name.ends_with(suffix)) return std::nullopt;
  name.remove_prefix(kind.size());
  name.remove_suffix(suffix.size());
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

}  // namespace

std::string ChooseCodeFile(const std::vector<std::string>& names, int capability) {
  std::string best;
  int best_rank = -1;  // machine code before PTX, then the newest
  for (const std::string& name : names) {
    if (capability == 0) {
      if (name == kHipBundle) return name;
      continue;
    }
    if (const auto real = NumberAfter(name, "sm_", ".cubin")) {
      const bool fits = *real / 10 == capability / 10 && *real <= capability;
      if (fits && 10000 + *real > best_rank) {
        best_rank = 10000 + *real;
        best = name;
      }
    } else if (const auto ptx = NumberAfter(name, "compute_", ".ptx")) {
      if (*ptx <= capability && *ptx > best_rank) {
        best_rank = *ptx;
        best = name;
      }
    }
  }
  if (!best.empty()) return best;
  std::string listing;
  for (const std::string& name : names) listing += (listing.empty() ? "" : ", ") + name;
  const std::string gpu = capability == 0
                              ? "an AMD GPU"
                              : "a GPU of compute capability " + std::to_string(capability / 10) +
                                    "." + std::to_string(capability % 10);
  throw Error(Error::Kind::kInvalid, "this build has no code for " + gpu + ", only " +
                                         (listing.empty() ? "for CPUs" : listing) +
                                         "; `variantwheel verify` names the build that fits");
}

std::vector<std::string> ListCodeFiles(const std::string& folder) {
  std::set<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (open == nullptr) return {};
  // NOLINTNEXTLINE(concurrency-mt-unsafe): of one stream, which nobody else has
  while (const dirent* entry = ::readdir(open.get())) names.emplace(entry->d_name);
  return {names.begin(), names.end()};
}

std::string ReadCodeFile(const std::string& path) {
  std::string bytes;
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (file != nullptr) {
    std::array<char, 65536> block;
    while (const size_t got = std::fread(block.data(), 1, block.size(), file.get())) {
      bytes.append(block.data(), got);
    }
  }
  if (file == nullptr || std::ferror(file.get()) != 0 || bytes.empty()) {
    throw Error(Error::Kind::kIo, path + ": cannot be read; install horovod-variants again");
  }
  return bytes;  // std::string keeps a zero behind its last character
}

}  // namespace hvd
