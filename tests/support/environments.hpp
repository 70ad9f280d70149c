// An environment of processes with the variables given and no others.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "device/launch_environment.hpp"

namespace foretrain::test {

inline Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

}  // namespace foretrain::test
