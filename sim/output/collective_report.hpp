// A table of collectives as JSON (schema foretrain/collective/1), CSV, and text: ours, or that of nccl-tests.
#pragma once

#include <string>

#include "sim/network/collective_table.hpp"
#include "sim/output/json_writer.hpp"

namespace foretrain {

void write_collective_json(const CollectiveTable& table, const TextSink& sink);
void write_collective_csv(const CollectiveTable& table, const TextSink& sink);
// A line a size with its origin and interval, and below it what was measured.
std::string collective_text(const CollectiveTable& table, int width = 80);
// Columns as nccl-tests prints them (out of place alone): size, count, type, redop, root, time, algbw, busbw.
std::string nccl_tests_text(const CollectiveTable& table);

}  // namespace foretrain
