#include "sim/base/error.hpp"

namespace foretrain {
namespace {

std::string join(const std::vector<Diagnostic>& findings) {
  std::string all;
  for (const Diagnostic& finding : findings) {
    if (!all.empty()) all += '\n';
    all += finding.text();
  }
  return all;
}

}  // namespace

std::string Diagnostic::text() const {
  std::string out = where.file;
  if (where.line > 0) out += ':' + std::to_string(where.line);
  if (where.line > 0 && where.column > 0) out += ':' + std::to_string(where.column);
  if (!out.empty()) out += ": ";
  return out + what;
}

Error::Error(ErrorKind error_kind, std::string what)
    : std::runtime_error(what), kind_(error_kind), diagnostics_{{{}, std::move(what)}} {}

Error::Error(std::vector<Diagnostic> findings, ErrorKind error_kind)
    : std::runtime_error(join(findings)), kind_(error_kind), diagnostics_(std::move(findings)) {}

}  // namespace foretrain
