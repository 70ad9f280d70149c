// Files that may be compressed with gzip.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace foretrain {

bool is_gzip(std::string_view bytes);

// The content of gzip members, at most `limit` bytes. Throws Error(input) that names `file` where the data is
// truncated, damaged or larger.
std::string gunzip(std::string_view bytes, const std::string& file, std::size_t limit);

// A file's content, decompressed where it begins as gzip does (whatever its name). Throws Error(input).
std::string read_possibly_compressed(const std::filesystem::path& path,
                                     std::size_t limit = std::size_t{256} << 20);

}  // namespace foretrain
