// A folder of code for the emulated GPU, as a wheel has one for a real GPU.
#ifndef HVD_TESTS_NATIVE_CODE_FOLDER_H_
#define HVD_TESTS_NATIVE_CODE_FOLDER_H_

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace hvd::test {

class CodeFolder {
 public:
  CodeFolder() : path_(std::filesystem::temp_directory_path() / Name()) {
    std::filesystem::create_directory(path_);
    for (const char* name : {"kernels.sm_90.cubin", "kernels.hip.bundle"}) {
      std::ofstream(path_ / name) << "emulated";
    }
  }
  ~CodeFolder() { std::filesystem::remove_all(path_); }
  CodeFolder(const CodeFolder&) = delete;
  CodeFolder& operator=(const CodeFolder&) = delete;
  std::string path() const { return path_.string(); }

 private:
  static std::string Name() { return "hvd-gpu-code-" + std::to_string(::getpid()); }
  std::filesystem::path path_;
};

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_CODE_FOLDER_H_
