#include "execute/monitor.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>

#include "device/reference/backend.hpp"
#include "execute/findings.hpp"
#include "execute/process_usage.hpp"
#include "sim/base/random.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

void put(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

MonitorSeries made_series(double slope, double noise) {
  MonitorSeries series;
  series.what = "resident";
  series.unit = "bytes";
  RandomStream random(1);
  for (int i = -20; i < 100; ++i) {
    series.time.push_back(0.1 * i);
    // Before the first counted step memory grows fast, which is no leak.
    const double ramp = i < 0 ? 1e9 : 0;
    series.value.push_back(1e9 + ramp * 0.1 * i + slope * 0.1 * i + noise * random.normal());
  }
  return series;
}

}  // namespace

TEST_CASE("the process and its children are summed") {
  const test::TemporaryFolder folder;
  const std::filesystem::path proc = folder.path("proc");
  // (the name) may hold blanks and parentheses; fields 14 to 17 are the times.
  put(proc / "self/stat", "7 (a b) c) S 1 7 7 0 -1 0 0 0 0 0 100 20 3 0 20 0 1 0");
  put(proc / "self/statm", "1000 200 0 0 0 0 0");
  put(proc / "self/task/7/children", "8 9 ");
  put(proc / "self/task/70/children", "");
  put(proc / "8/stat", "8 (x) S 7 7 7 0 -1 0 0 0 0 0 50 0 0 0 20 0 1 0");
  put(proc / "8/statm", "10 5 0 0 0 0 0");
  put(proc / "8/task/8/children", "");
  const ProcessUsage usage = process_usage({}, proc);  // 9 has gone meanwhile
  CHECK(usage.cpu_seconds == approx(173.0 / static_cast<double>(sysconf(_SC_CLK_TCK))));
  CHECK(usage.resident_bytes == 205.0 * static_cast<double>(sysconf(_SC_PAGESIZE)));
  // Another rank's process, and the same twice, and one that is a child already.
  put(proc / "20/stat", "20 (y) S 1 7 7 0 -1 0 0 0 0 0 7 0 0 0 20 0 1 0");
  put(proc / "20/statm", "10 100 0 0 0 0 0");
  const ProcessUsage with_others = process_usage({20, 8, 20}, proc);
  CHECK(with_others.cpu_seconds == approx(180.0 / static_cast<double>(sysconf(_SC_CLK_TCK))));
  CHECK(with_others.resident_bytes == 305.0 * static_cast<double>(sysconf(_SC_PAGESIZE)));
  const std::filesystem::path net = folder.path("net");
  for (const char* name : {"lo", "eth0", "ib0"}) {
    put(net / name / "statistics/tx_bytes", "1000");
    put(net / name / "statistics/rx_bytes", "30");
  }
  CHECK(network_bytes(net).sent == 2000);
  CHECK(network_bytes(net).received == 60);
  CHECK(process_usage().resident_bytes > 1e6);
}

TEST_CASE("the monitor samples in its interval") {
  const auto backend = device::reference::make_backend();
  Monitor monitor(*backend, {0}, 0, 0.01, std::chrono::steady_clock::now());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const std::vector<MonitorSeries> all = monitor.stop(0.1);
  bool has_resident = false, has_cpu = false;
  for (const MonitorSeries& series : all) {
    CHECK(series.time.size() == series.value.size());
    CHECK(series.time.front() < 0);
    has_cpu = has_cpu || series.what == "cpu";
    if (series.what != "resident") continue;
    has_resident = true;
    CHECK(series.time.size() >= 3);
    CHECK(series.time.size() <= 40);
    CHECK(series.value.back() > 1e6);
  }
  CHECK(has_resident);
  CHECK(has_cpu);
}

TEST_CASE("steps that stand out are found, with their cause") {
  RunRecord record;
  record.ranks.resize(2);
  for (int i = 0; i < 50; ++i) {
    record.ranks[0].step.push_back(0.1 + 0.001 * (i % 3));
    record.ranks[1].step.push_back(0.1);
  }
  CHECK(step_findings(record, {}).empty());
  record.ranks[0].step[0] = 0.2;
  record.ranks[1].step[10] = 0.3;
  record.ranks[1].step[20] = 0.15;
  record.ranks[1].step[30] = 0.15;
  record.ranks[0].step[40] = record.ranks[1].step[40] = 0.05;
  record.events = {{"phase", 0, 9, 100, 8, 2, 0}, {"checkpoint", 1, 2, 110, 8, 2, 0}};
  const std::vector<MonitorFinding> found = step_findings(record, {20});
  REQUIRE(found.size() == 5);
  CHECK(found[0].cause == "first step");
  CHECK(found[1].cause == "checkpoint");
  CHECK(found[1].what == "spike");
  CHECK(found[2].cause == "batch load");
  CHECK(found[3].cause == "");
  CHECK(found[4].what == "dip");
  CHECK(found[1].text == "step 10 took 300 ms, +197 % of the median");
}

TEST_CASE("growing memory is a leak, noise is none") {
  CHECK(leak_findings({made_series(0, 1e6)}).empty());
  CHECK(leak_findings({made_series(5e5, 1e6)}).empty());  // 5 MB in 10 s: too little to tell
  const std::vector<MonitorFinding> found = leak_findings({made_series(2e7, 1e6)});
  REQUIRE(found.size() == 1);
  CHECK(found[0].what == "leak");
  CHECK(found[0].text.find("resident grew by ") == 0);
}

TEST_CASE("clocks are those of the counted steps, with why they were held back") {
  MonitorSeries clock, most, power, heat;
  clock.what = "gpu_clock";
  most.what = "gpu_clock_max";
  power.what = "gpu_power";
  heat.what = "gpu_temperature";
  std::vector<Monitor::Throttle> throttles;
  for (int i = -10; i < 30; ++i) {
    const double time = 0.1 * i + 0.05;
    // Cold before, 1.7 GHz while it counts, idle afterwards.
    const double hz = i < 0 ? 1.98e9 : i < 20 ? 1.7e9 : 0.3e9;
    for (auto [series, value] : {std::pair(&clock, hz), {&most, 1.98e9}, {&power, 690.0}, {&heat, 60.0}}) {
      series->device = 2;
      series->time.push_back(time);
      series->value.push_back(value);
    }
    if (i % 2 == 0) throttles.push_back({time, 2, i == 4 ? "power cap, thermal, software" : "power cap"});
  }
  const std::vector<ClockRecord> records = clock_records({clock, most, power, heat}, throttles, 2);
  REQUIRE(records.size() == 1);
  CHECK(records[0].device == 2);
  CHECK(records[0].samples == 20);
  CHECK(records[0].sm_hz == 1.7e9);
  CHECK(records[0].sm_low_hz == 1.7e9);
  CHECK(records[0].sm_max_hz == 1.98e9);
  CHECK(records[0].power_watts == 690);
  CHECK(records[0].temperature == 60);
  CHECK(records[0].throttled == approx(0.5));
  CHECK(clock_text(records[0]) ==
        "node 0 device 2: 1700 of 1980 MHz, 690 W, power cap, thermal, software in 50 % of 20 samples");
  CHECK(clock_records({power}, throttles, 2).empty());
}
