#include "device/registry.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "device/module_problem.hpp"
#include "sim/base/error.hpp"

namespace foretrain::device {
namespace {

using Entry = Backend* (*)(int);
using Problem = decltype(&foretrain_backend_problem);

struct Module {
  Backend* backend = nullptr;
  Problem problem = nullptr;
};

std::filesystem::path program_folder() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

[[noreturn]] void unavailable(const std::string& what) {
  throw Error(ErrorKind::unavailable, what);
}

Module open_module(const std::string& name) {
  const std::string file = "libforetrain_" + name + ".so";
  std::string looked;
  for (const std::filesystem::path& folder : module_folders()) {
    const std::filesystem::path path = folder / file;
    looked += (looked.empty() ? "" : ", ") + folder.string();
    if (!std::filesystem::exists(path)) continue;
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!module) unavailable("cannot open " + path.string() + ": " + dlerror());
    const auto entry = reinterpret_cast<Entry>(dlsym(module, "foretrain_backend"));
    if (!entry) unavailable(path.string() + " is no backend: it has no foretrain_backend");
    Backend* backend = entry(Backend::abi);
    if (!backend) {
      unavailable(path.string() + " was built for another version of foretrain: build it again");
    }
    return {backend, reinterpret_cast<Problem>(dlsym(module, "foretrain_backend_problem"))};
  }
  unavailable("there is no backend \"" + name + "\": " + file + " is not in " + looked);
}

Module& module_of(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, Module> opened;
  const std::lock_guard lock(mutex);
  Module& module = opened[name];
  if (module.backend == nullptr) module = open_module(name);
  return module;
}

// As the module's library says it.
std::string why_none(const std::string& name) {
  const Module& module = module_of(name);
  const char* why = module.problem != nullptr ? module.problem() : nullptr;
  return why != nullptr ? std::string(" (") + why + ')' : std::string();
}

}  // namespace

std::vector<std::filesystem::path> module_folders() {
  std::vector<std::filesystem::path> folders;
  if (const char* named = std::getenv("FORETRAIN_MODULES"); named && *named) folders.emplace_back(named);
  if (const auto program = program_folder(); !program.empty()) {
    folders.push_back(program);
    folders.push_back((program / ".." / FORETRAIN_MODULE_FOLDER).lexically_normal());
  }
  return folders;
}

Backend& open_backend(const std::string& name) {
  return *module_of(name).backend;
}

Backend& choose_backend(const std::string& device) {
  if (!device.empty()) {
    Backend& backend = open_backend(device);
    if (backend.device_count() == 0)
      unavailable("no device of the backend \"" + device + "\" answers" + why_none(device));
    return backend;
  }
  std::string reasons;
  for (const char* name : {"cuda", "cpu"}) {
    try {
      Backend& backend = open_backend(name);
      if (backend.device_count() > 0) return backend;
      reasons += std::string("; ") + name + ": no device answers" + why_none(name);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unavailable) throw;
      reasons += std::string("; ") + name + ": " + error.what();
    }
  }
  unavailable("no device to compute on" + reasons);
}

}  // namespace foretrain::device
