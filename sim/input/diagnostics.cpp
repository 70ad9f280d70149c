#include "sim/input/diagnostics.hpp"

#include <algorithm>
#include <tuple>

namespace foretrain {
namespace {

void add_once(std::vector<Diagnostic>& findings, Diagnostic finding) {
  const bool known = std::any_of(findings.begin(), findings.end(), [&](const Diagnostic& other) {
    return other.what == finding.what && other.where.line == finding.where.line &&
           other.where.column == finding.where.column && other.where.file == finding.where.file;
  });
  if (!known) findings.push_back(std::move(finding));
}

std::vector<Diagnostic> sorted(std::vector<Diagnostic> findings) {
  std::vector<std::string> files;
  for (const Diagnostic& finding : findings) {
    if (std::find(files.begin(), files.end(), finding.where.file) == files.end()) {
      files.push_back(finding.where.file);
    }
  }
  auto place = [&](const Diagnostic& finding) {
    const auto file = std::find(files.begin(), files.end(), finding.where.file) - files.begin();
    return std::tuple(file, finding.where.line, finding.where.column);
  };
  std::stable_sort(findings.begin(), findings.end(),
                   [&](const Diagnostic& a, const Diagnostic& b) { return place(a) < place(b); });
  return findings;
}

// A file that is wrong everywhere need not be read out in full.
constexpr std::size_t most_findings = 200;

}  // namespace

void Diagnostics::error(SourceLocation where, std::string what) {
  if (errors_.size() >= most_findings) return;
  add_once(errors_, {std::move(where), std::move(what)});
}

void Diagnostics::warning(SourceLocation where, std::string what) {
  if (warnings_.size() >= most_findings) return;
  add_once(warnings_, {std::move(where), std::move(what)});
}

void Diagnostics::note(SourceLocation where, std::string what) {
  if (notes_.size() >= most_findings) return;
  add_once(notes_, {std::move(where), std::move(what)});
}

void Diagnostics::add(const Error& thrown) {
  for (const Diagnostic& finding : thrown.diagnostics()) error(finding.where, finding.what);
}

std::vector<Diagnostic> Diagnostics::errors() const {
  return sorted(errors_);
}

std::vector<Diagnostic> Diagnostics::warnings() const {
  return sorted(warnings_);
}

std::vector<Diagnostic> Diagnostics::notes() const {
  return sorted(notes_);
}

void Diagnostics::merge(const Diagnostics& other) {
  for (const Diagnostic& finding : other.errors_) error(finding.where, finding.what);
  for (const Diagnostic& finding : other.warnings_) warning(finding.where, finding.what);
  for (const Diagnostic& finding : other.notes_) note(finding.where, finding.what);
}

void Diagnostics::throw_errors() const {
  if (!ok()) throw Error(errors());
}

}  // namespace foretrain
