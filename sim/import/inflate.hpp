// Bytes of a file, decompressed on their way where it is gzip.
#pragma once

#include <memory>
#include <string>

#include "sim/import/importer.hpp"

namespace foretrain {

// Whole gzip members one after the other, or plain bytes as they are, told by how they begin.
class InflatedBytes {
 public:
  explicit InflatedBytes(ByteSource source);
  ~InflatedBytes();
  InflatedBytes(const InflatedBytes&) = delete;
  InflatedBytes& operator=(const InflatedBytes&) = delete;

  // 0 at the end. Damage ends the bytes and sets damage().
  std::size_t read(std::span<char> buffer);
  const std::string& damage() const { return damage_; }  // empty where there is none

 private:
  struct State;
  std::size_t refill();

  ByteSource source_;
  std::unique_ptr<State> state_;
  std::string damage_;
};

}  // namespace foretrain
