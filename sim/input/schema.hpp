// Tables of the keys that a kind of file takes. The readers' checks, `foretrain check` and docs/reference.md
// are all made from them, so that they cannot drift apart.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sim/input/diagnostics.hpp"
#include "sim/input/document.hpp"

namespace foretrain {

// What a value may be; a key may take several: Type::text | Type::map.
enum class Type : unsigned {
  text = 1,
  number = 2,
  integer = 4,
  boolean = 8,
  time = 16,         // "20 us", within a step
  job_time = 32,     // "2 h", of a job
  bytes = 64,        // "25 MiB"
  rate = 128,        // "25 Gbit/s"
  interval = 256,    // "1 epoch", "500 updates", "10 min"
  price = 512,       // "2.50 USD/gpu-hour"
  list = 1024,       // of whatever the reader says
  map = 2048,        // with the keys of `keys`
  anything = 4096,   // the reader checks it
  power = 8192,      // "700 W"
  gpu_hours = 16384  // "50 gpu-hours"
};
constexpr Type operator|(Type a, Type b) {
  return static_cast<Type>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool includes(Type set, Type type) {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(type)) != 0;
}
// "a number or a list", for messages and the reference page.
std::string name_of(Type types);

struct Schema;

// A word that we know and do not model yet, and what comes nearest to it.
struct NotModelled {
  std::string name;
  std::string nearest;
};

struct KeySpec {
  static constexpr double unlimited = std::numeric_limits<double>::infinity();

  std::string name = {};
  Type type = Type::text;
  std::string description = {};  // one line
  bool required = false;
  std::string default_value = {};              // as YAML would have it; empty: none
  std::string example = {};                    // for messages where the type is wrong; empty: none
  std::vector<std::string> allowed = {};       // words; empty: any
  std::vector<NotModelled> not_modelled = {};  // words that are refused with the nearest
  // Bounds in seconds, bytes, bytes per second, or as they stand. `above`: greater than, not equal.
  double at_least = -unlimited;
  double above = -unlimited;
  double at_most = unlimited;
  // Outside of these a value is allowed and gets a hint.
  double usual_low = -unlimited;
  double usual_high = unlimited;
  const Schema* keys = nullptr;   // of a map
  const Schema* items = nullptr;  // of a list: each item is a map with these keys
  // Known, and nothing in the simulation rests on it so far: the error (or the warning) that says so.
  std::string not_simulated = {};
  std::string without_effect = {};
  // Of no effect but where another key of the same map has one of these words: "kind", {"parameter_server"}.
  std::string beside = {};
  std::vector<std::string> beside_words = {};
};

// For tables of many keys: a key of a type with its description, and one that must be there.
KeySpec key(std::string name, Type type, std::string description, std::string default_value = {},
            std::string example = {});
KeySpec required(KeySpec made);
// Of no effect but where the map's other key has one of these words.
KeySpec beside(std::string other, std::vector<std::string> words, KeySpec made);

struct Schema {
  std::string name = {};         // "scenario", "network"
  std::string description = {};  // one line
  std::vector<KeySpec> keys = {};
  std::vector<NotModelled> not_modelled = {};  // keys that are refused with the nearest

  const KeySpec* find(std::string_view key) const;
  std::vector<std::string> names() const;
};

// A bound in base units as a file would write it: "400 Gbit/s", "64 KiB".
std::string shown_bound(double value, Type type);

// Checks a map against its table: unknown and missing keys, types, units, allowed words, bounds; hints go to
// the warnings. Maps below are checked as well. `what` names the map in messages ("a scenario").
void check_map(const Value& map, const Schema& schema, Diagnostics& diagnostics);

// Checks one value against what its key takes.
void check_value(const Value& value, const KeySpec& key, Diagnostics& diagnostics);

}  // namespace foretrain
