// Compresses a stream of bytes into one gzip member without name and date, so that equal content gives equal
// bytes.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

namespace foretrain {

class GzipStream {
 public:
  explicit GzipStream(std::function<void(std::string_view)> sink);
  ~GzipStream();

  void write(std::string_view bytes);
  void finish();

 private:
  struct State;
  void pump(std::string_view bytes, int flush);
  std::function<void(std::string_view)> sink_;
  std::unique_ptr<State> state_;
};

}  // namespace foretrain
