// Text as the samples of a model of tokens.
#pragma once

#include <filesystem>
#include <memory>

#include "execute/data_source.hpp"

namespace foretrain {

enum class TextUnit { bytes, words };

// A text file, or all files of a folder and those below it, in the order of their names. Tokens are its
// bytes, or its words (runs of letters and digits; every other character but blanks is a word of its own),
// numbered by how often they come; where there are more than the model has, the rarest share its last one.
//
// A sample is a stretch of the text, drawn by update, rank and place, with the token after each as its
// target. A model of two streams reads the stretch twice, the second time behind by one, and is to say it
// again. Throws Error (input) where nothing can be read, the text is shorter than a sample or the model reads
// no tokens.
std::unique_ptr<DataSource> open_text(const std::filesystem::path& path, TextUnit unit, const Model& model,
                                      std::uint64_t seed);

// Tokens at random, and as the target of each another token, always the same one.
std::unique_ptr<DataSource> make_learnable_tokens(const Model& model, std::uint64_t seed);

}  // namespace foretrain
