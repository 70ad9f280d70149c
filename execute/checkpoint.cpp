#include "execute/checkpoint.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "execute/checkpoint_identity.hpp"
#include "sim/output/file_writer.hpp"

namespace foretrain {
namespace {

constexpr std::string_view magic = "foretrain/checkpoint/4\n", any_version = "foretrain/checkpoint/";

// Followed by identity, losses, weights and state; `crc` is over those four and the updates.
struct Header {
  std::int64_t updates = 0;
  std::uint64_t identity = 0, losses = 0, weights = 0, state = 0;  // bytes
  std::uint64_t crc = 0;
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t add_crc(std::uint64_t crc, std::string_view bytes) {
  constexpr std::size_t most = std::size_t{1} << 30;  // zlib counts in 32 bits
  for (std::size_t at = 0; at < bytes.size(); at += most) {
    const std::string_view piece = bytes.substr(at, most);
    crc = crc32(static_cast<uLong>(crc), reinterpret_cast<const Bytef*>(piece.data()),
                static_cast<uInt>(piece.size()));
  }
  return crc;
}

std::uint64_t crc_of(const std::string& identity, const TrainingState& state) {
  std::uint64_t crc = add_crc(0, text_of(std::as_bytes(std::span(&state.updates, 1))));
  crc = add_crc(crc, identity);
  crc = add_crc(crc, text_of(std::as_bytes(std::span(state.losses))));
  crc = add_crc(crc, text_of(state.weights));
  return add_crc(crc, text_of(state.state));
}

[[noreturn]] void damaged(const std::filesystem::path& path) {
  throw Error(ErrorKind::failure, path.string() + " is no whole checkpoint");
}

}  // namespace

TrainingState take_state(device::Worker& worker, device::Program& program, std::int64_t updates) {
  worker.synchronize();
  TrainingState state;
  state.updates = updates;
  const device::Buffer weights = program.weights();
  state.weights.resize(static_cast<std::size_t>(weights.bytes));
  worker.read(weights, state.weights);
  state.state = program.save_state();
  return state;
}

void put_state(const TrainingState& state, device::Worker& worker, device::Program& program) {
  const device::Buffer weights = program.weights();
  if (static_cast<std::int64_t>(state.weights.size()) != weights.bytes) {
    throw Error(ErrorKind::input, fmt::format("a state with {} bytes of weights does not fit a model with {}",
                                              state.weights.size(), weights.bytes));
  }
  worker.synchronize();
  worker.write(weights, state.weights);
  program.weights_changed();
  program.load_state(state.state);
}

std::int64_t write_checkpoint(const std::filesystem::path& path, const std::string& identity,
                              const TrainingState& state) {
  Header header;
  header.updates = state.updates;
  header.identity = identity.size();
  header.losses = state.losses.size() * sizeof(LossSeen);
  header.weights = state.weights.size();
  header.state = state.state.size();
  header.crc = crc_of(identity, state);
  FileWriter writer(path.string());
  const std::string_view parts[] = {magic,
                                    text_of(std::as_bytes(std::span(&header, 1))),
                                    identity,
                                    text_of(std::as_bytes(std::span(state.losses))),
                                    text_of(state.weights),
                                    text_of(state.state)};
  std::size_t bytes = 0;
  for (std::string_view part : parts) {
    writer.write(part);
    bytes += part.size();
  }
  writer.commit(true);
  return static_cast<std::int64_t>(bytes);
}

std::optional<TrainingState> read_checkpoint(const std::filesystem::path& path, const std::string& identity) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  std::string found(magic.size(), '\0');
  Header header;
  in.read(found.data(), static_cast<std::streamsize>(found.size()));
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  if (in && found != magic && found.starts_with(any_version)) {
    throw Error(
        ErrorKind::input,
        path.string() + " is a checkpoint of another version of foretrain, which this one does not read");
  }
  if (!in || found != magic) damaged(path);
  const std::uint64_t size = std::filesystem::file_size(path) - magic.size() - sizeof header;
  if (header.identity > size || header.losses > size || header.weights > size || header.state > size ||
      header.losses % sizeof(LossSeen) != 0 ||
      header.identity + header.losses + header.weights + header.state != size) {
    damaged(path);
  }
  std::string of(header.identity, '\0');
  TrainingState state;
  state.updates = header.updates;
  state.losses.resize(header.losses / sizeof(LossSeen));
  state.weights.resize(header.weights);
  state.state.resize(header.state);
  in.read(of.data(), static_cast<std::streamsize>(of.size()));
  in.read(reinterpret_cast<char*>(state.losses.data()), static_cast<std::streamsize>(header.losses));
  in.read(reinterpret_cast<char*>(state.weights.data()), static_cast<std::streamsize>(state.weights.size()));
  in.read(reinterpret_cast<char*>(state.state.data()), static_cast<std::streamsize>(state.state.size()));
  if (!in || crc_of(of, state) != header.crc) damaged(path);
  if (of != identity) {
    throw Error(ErrorKind::input, fmt::format("{} is a checkpoint of another run: {}", path.string(),
                                              identity_difference(of, identity)));
  }
  return state;
}

}  // namespace foretrain
