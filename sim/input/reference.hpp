// The reference page of the input files, docs/reference.md, made from the tables that the readers check
// against.
#pragma once

#include <string>

namespace foretrain {

// Markdown.
std::string reference_page();

}  // namespace foretrain
