// Predictions of one kind are as good as each other: what validation sums its rows up by.
#pragma once

#include <string>

#include "sim/input/scenario.hpp"

namespace foretrain {

// What is trained and where: "images, one GPU", "captured sequences, GPUs of a node", "sequences of unequal
// lengths, several nodes", "images, workers of a node on processors", "given step times, several nodes",
// "traced work, one GPU"; a strategy other than ddp stands behind.
std::string kind_of(const Scenario& scenario);

}  // namespace foretrain
