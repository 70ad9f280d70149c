#include "device/cuda/check.hpp"

#include <string>

#include "sim/base/error.hpp"

namespace foretrain::device::cuda {

void throw_failed_call(const char* library, const char* what, const char* call, const char* file, int line,
                       bool out_of_memory) {
  std::string text =
      std::string(library) + ": " + what + " in " + call + " (" + file + ':' + std::to_string(line) + ')';
  if (out_of_memory) text = "the GPU is out of memory: take a smaller batch; " + text;
  throw Error(ErrorKind::failure, std::move(text));
}

}  // namespace foretrain::device::cuda
