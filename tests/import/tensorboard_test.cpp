#include "sim/import/tensorboard.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/base/wire.hpp"
#include "sim/output/event_file.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/imports.hpp"

using namespace foretrain;
using foretrain::test::approx;
using test::Finished;
using test::holds;
using test::run_foretrain;
using test::TemporaryFolder;

namespace {

// 0.1 s a step, a point each; every 20 updates an evaluation of 3 s.
std::vector<ScalarEvent> job() {
  std::vector<ScalarEvent> events;
  double now = 1.7e9;
  for (int step = 1; step <= 100; ++step) {
    now += step % 2 == 0 ? 0.1 : 0.102;
    if (step % 20 == 0) now += 3;
    events.push_back({now, step, "train/loss", 2.0 / step});
    if (step % 20 == 0) events.push_back({now, step, "val/accuracy", 0.01 * step});
  }
  return events;
}

Imported imported(const std::string& bytes, const std::string& target, ImportOptions options = {}) {
  options.file = "events";
  options.target = target;
  return import_tensorboard(bytes, options);
}

std::string refusal(const std::string& bytes, const std::string& target = "a.csv",
                    const ImportOptions& options = {}) {
  return test::refusal_of([&] { imported(bytes, target, options); });
}

}  // namespace

TEST_CASE("the checksum of records is the known one") {
  // CRC-32C of "123456789" is E3069283; masked: rotated right by 15 bits, plus A282EAD8.
  const std::uint32_t crc = 0xE3069283U;
  CHECK(masked_crc("123456789") == ((crc >> 15) | (crc << 17)) + 0xA282EAD8U);
}

TEST_CASE("event files are read as they are written") {
  const std::vector<ScalarEvent> events = job();
  const EventFile file = read_event_file(event_file_text(events), "events");
  REQUIRE(file.events.size() == events.size());
  CHECK(file.events[3].tag == "train/loss");
  CHECK(file.events[3].step == 4);
  CHECK(file.events[3].value == approx(0.5));
  CHECK(file.events[3].wall_time == events[3].wall_time);
  CHECK(file.damaged == 0);
  CHECK(!file.is_cut);
}

TEST_CASE("a scalar that is a tensor of one element, as newer versions write it") {
  for (const bool is_raw : {true, false}) {
    WireWriter tensor, value, summary, event;
    tensor.varint(1, 1);
    if (is_raw) {
      tensor.bytes(4, std::string("\0\0\0\x3F", 4));
    } else {
      tensor.real32(5, 0.5F);
    }
    value.bytes(1, "loss");
    value.message(8, tensor);
    summary.message(1, value);
    event.real64(1, 12.5);
    event.varint(2, 7);
    event.message(5, summary);
    const std::string empty = event_file_text({});
    std::string file = empty;
    std::string length(8, '\0');
    length[0] = static_cast<char>(event.text().size());
    auto crc = [](std::string_view bytes) {
      const std::uint32_t sum = masked_crc(bytes);
      std::string out;
      for (int i = 0; i < 4; ++i) out += static_cast<char>(sum >> (8 * i) & 0xFF);
      return out;
    };
    file += length + crc(length) + event.text() + crc(event.text());
    const EventFile read = read_event_file(file, "events");
    REQUIRE(read.events.size() == 1);
    CHECK(read.events[0].value == 0.5);
  }
}

TEST_CASE("wall times become a step time, pauses are told apart") {
  ImportOptions options;
  options.batch = 32;
  const Imported made = imported(event_file_text(job()), "steps.yaml", options);
  CHECK(holds(made.content, "steps: [[32, 10"));
  CHECK(holds(made.content, "# every 20 updates a pause of 3"));
  CHECK(holds(made.content,
              " (5 times): evaluation (val/accuracy); in a job: log: { every: 20 updates, time: 3"));
  CHECK(holds(made.summary, "100 points of train/loss"));
  CHECK(holds(refusal(event_file_text(job()), "steps.yaml"), "add --batch N"));
}

TEST_CASE("pauses at which an evaluation was written are told from the others, and are a job's") {
  // 125 ms a step; every 10 updates an evaluation of 2 s, every 40 a checkpoint of 9 s.
  std::vector<ScalarEvent> events;
  double now = 1.7e9;
  for (int step = 1; step <= 200; ++step) {
    now += 0.125;
    if (step % 10 == 5) now += 2;
    if (step % 40 == 21) now += 9;
    events.push_back({now, step, "loss", 1.0});
    if (step % 10 == 5) events.push_back({now, step, "eval/loss", 1.0});
  }
  ImportOptions options;
  options.batch = 32;
  const Imported made = imported(event_file_text(events), "steps.yaml", options);
  CAPTURE(made.content);
  CHECK(holds(made.content, "steps: [[32, 125 ms"));
  CHECK(holds(made.content, "every 10 updates a pause of 2.00 s (20 times): evaluation (eval/loss)"));
  CHECK(holds(made.content, "every 40 updates a pause of 9.00 s (5 times): a checkpoint, or input"));
  // Without the evaluations' scalars nothing tells them apart.
  std::erase_if(events, [](const ScalarEvent& each) { return each.tag != "loss"; });
  CHECK(holds(imported(event_file_text(events), "steps.yaml", options).content,
              "(20 times): evaluation, a checkpoint, or input"));
  // What it says of a job is taken by one: 200 updates of 0.125 s, and 20 pauses of 2 s.
  const TemporaryFolder folder;
  folder.write("steps.yaml", made.content);
  const std::size_t at = made.content.find("log: {");
  const std::string log = made.content.substr(at, made.content.find('}', at) + 1 - at);
  const std::string scenario = folder.write(
      "s.yaml",
      "profile: steps.yaml\nbatch: { per_worker: 32 }\ncluster: { topology: one-node, workers: 1 }\n"
      "dataset: { samples: 6400 }\njob: { epochs: 1, " +
          log + " }\n");
  const Finished done = run_foretrain({"simulate", scenario, "--json", "-"});
  REQUIRE_MESSAGE(done.status == 0, done.err);
  CHECK(nlohmann::json::parse(done.out).at("job").at("parts_s").at("logging").get<double>() ==
        approx(40).epsilon(0.06));
}

TEST_CASE("a scalar becomes a curve") {
  const Imported loss = imported(event_file_text(job()), "c.csv");
  CHECK(holds(loss.content, "updates,loss\n1,2\n2,1\n"));
  ImportOptions options;
  options.tag = "val/accuracy";
  CHECK(holds(imported(event_file_text(job()), "c.csv", options).content, "updates,accuracy\n20,0.2\n"));
  options.tag = "nothing";
  CHECK(
      holds(refusal(event_file_text(job()), "c.csv", options), "it has train/loss (100), val/accuracy (5)"));
}

TEST_CASE("files that are cut, damaged, resumed, or none") {
  const std::string good = event_file_text(job());
  ImportOptions options;
  options.batch = 32;
  const Imported cut = imported(good.substr(0, good.size() - 5), "s.yaml", options);
  CHECK(holds(cut.notes.back(), "ends within a record"));
  std::string damaged = good;
  damaged[good.size() / 2] = static_cast<char>(damaged[good.size() / 2] ^ 0x40);
  CHECK(imported(damaged, "s.yaml", options).notes.size() > cut.notes.size() - 1);
  std::vector<ScalarEvent> resumed = job(), again = job();
  for (ScalarEvent& each : again) each.wall_time += 1000;
  resumed.insert(resumed.end(), again.begin(), again.begin() + 50);
  bool tells = false;
  for (const std::string& note : imported(event_file_text(resumed), "s.yaml", options).notes)
    tells = tells || holds(note, "go back in step");
  CHECK(tells);
  CHECK(holds(refusal(""), "is empty"));
  CHECK(holds(refusal("hello, this is no event file"), "no event file"));
  CHECK(holds(refusal(event_file_text({})), "has no scalars"));
}

TEST_CASE("a step from an event file is simulated, and predictions are scalars beside it") {
  const TemporaryFolder folder;
  const std::string events = folder.write("events", event_file_text(job()));
  CHECK(
      run_foretrain({"import", "tensorboard", events, "-o", folder.path("t.yaml"), "--batch", "32"}).status ==
      0);
  const std::string scenario = folder.write(
      "s.yaml", "profile: t.yaml\nbatch: { per_worker: 32 }\ncluster: { topology: one-node, workers: 1 }\n");
  const Finished made =
      run_foretrain({"simulate", scenario, "--csv", "-", "--tensorboard", folder.path("board")});
  CAPTURE(made.err);
  CHECK(made.status == 0);
  CHECK(holds(made.out, "0.10"));
  const Finished back = run_foretrain({"import", "tensorboard",
                                       folder.path("board/s/predicted/events.out.tfevents.0.foretrain"), "-o",
                                       "-", "--batch", "32"});
  CAPTURE(back.err);
  CHECK(back.status == 0);
  CHECK(holds(back.out, "steps: [[32, 10"));
}
