#include "sim/output/html.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "sim/output/svg_chart.hpp"
#include "tests/output/example_result.hpp"

using foretrain::Result;
using foretrain::test::example_result;

namespace {

std::string page_of(std::span<const Result> results) {
  std::string text;
  foretrain::write_html(results, foretrain::ValidationSummary{{36, 0.0123, 0.034}, {}},
                        [&](std::string_view piece) { text += piece; });
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Every element that is opened is closed, in order. Elements without content are listed.
bool balanced(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" \n"));
    if (name == "!DOCTYPE" || name == "meta" || tag.ends_with('/')) continue;
    if (!name.starts_with('/')) {
      open.push_back(name);
    } else if (open.empty() || open.back() != name.substr(1)) {
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

}  // namespace

TEST_CASE("a page holds what the result says, and nothing from elsewhere") {
  const Result result = example_result();
  const std::string page = page_of({&result, 1});
  CHECK(balanced(page));
  for (const char* part :
       {"Does a second node over 10 Gbit/s", "31.2 ms", "30.1 ms to 32.4 ms", "16,410 images/s",
        "exposed communication", "26 %", "25 Gbit/s would hide them", "1.36 x", "last validated",
        "prefers-color-scheme: dark", "width=device-width", "extrapolated:"}) {
    CAPTURE(part);
    CHECK(has(page, part));
  }
  for (const char* part : {"<script", "src=", "href=", "url(", "@import"}) CHECK_FALSE(has(page, part));
  CHECK(page == page_of({&result, 1}));
}

TEST_CASE("launches of a step stand beside what the host takes for them, results that are alike once") {
  const Result fused = example_result();
  Result unrolled = fused, counted = fused;
  unrolled.scenario = "unrolled";
  unrolled.gpu.launches = 12114;
  counted.scenario = "counted";
  counted.gpu.launches = 37644;
  counted.gpu.launching = 0;
  const std::string page = page_of(std::vector{fused, fused, unrolled, counted});
  const std::size_t begin = page.find("<h2>Launches of a step</h2>");
  REQUIRE(begin != std::string::npos);
  const std::string table = page.substr(begin, page.find("</table>", begin) - begin);
  CHECK(has(table, "1,283</td><td class=\"n\">6.00 us</td><td class=\"n\">7.70 ms"));
  CHECK(table.find("1,283") == table.rfind("1,283"));
  CHECK(has(table, "<td>unrolled</td><td class=\"n\">12,114</td>"));
  CHECK(has(table, "<td>counted</td><td class=\"n\">37,644</td><td class=\"n\">not known</td>"));
  CHECK(has(page, "1,283 a step, for which the host takes 7.70 ms: 6.00 us each"));
  Result unknown = fused;
  unknown.gpu.launches = unknown.gpu.launching = 0;
  CHECK_FALSE(has(page_of({&unknown, 1}), "aunches"));
}

TEST_CASE("points of one sweep are named by what they differ in, and what limits most comes first") {
  std::vector<Result> results(3, example_result());
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].scenario = "second (batch=" + std::to_string(i) + ")";
    results[i].limiting.kind = i == 0 ? "gpu" : "network";
  }
  const std::string page = page_of(results);
  CHECK(has(page, "<p class=\"note\">second, 3 scenarios</p>"));
  CHECK(has(page, "<td>batch=0</td>"));
  CHECK_FALSE(has(page, "second ("));
  const std::size_t network = page.find("The network limits 2 of 3"),
                    gpu = page.find("Computing limits 1 of 3");
  CHECK(network < gpu);
  CHECK(gpu != std::string::npos);
  results[2].scenario = "third (batch=2)";
  CHECK(has(page_of(results), "<td>second (batch=0)</td>"));
}

TEST_CASE("on paper a very long table has its first rows") {
  const std::vector<Result> few(120, example_result()), many(121, example_result());
  CHECK_FALSE(has(page_of(few), "On paper"));
  CHECK(has(page_of(many), "On paper: the first 120 rows."));
}

TEST_CASE("batches are drawn from phase to phase, and what never changes is not drawn") {
  Result result = example_result();
  result.job->phases.resize(2);
  result.job->phases[0].epochs = 2;
  result.job->phases[0].batch = 100;
  result.job->phases[1].epochs = 1;
  result.job->phases[1].batch = 400;
  CHECK(has(page_of({&result, 1}), "<h2>Batch</h2>"));
  result.job->phases[1].batch = 100;
  CHECK_FALSE(has(page_of({&result, 1}), "<h2>Batch</h2>"));
}

TEST_CASE("text from files is text on the page") {
  Result result = example_result();
  result.question.clear();
  result.scenario = "<b onclick='x'>&\"";
  result.limiting.text = "</main><script>";
  const std::string page = page_of({&result, 1});
  CHECK(balanced(page));
  CHECK_FALSE(has(page, "<script"));
  CHECK_FALSE(has(page, "<b "));
  CHECK(has(page, "&lt;b onclick=&#39;x&#39;&gt;&amp;&quot;"));
}

TEST_CASE("runs that differ in size and network are lines over workers") {
  std::vector<Result> results;
  for (const char* network : {"10 Gbit/s", "100 Gbit/s"}) {
    for (const int nodes : {1, 2, 16}) {
      Result result = example_result();
      result.workers = nodes * 4;
      result.inputs.push_back({"cluster.nodes", std::to_string(nodes), foretrain::Origin::measured, false});
      result.inputs.push_back({"cluster.network.bandwidth", network, foretrain::Origin::measured, false});
      results.push_back(result);
    }
  }
  const std::string page = page_of(results);
  CHECK(balanced(page));
  CHECK(has(page, "Throughput over workers"));
  CHECK(has(page, "</i>bandwidth 10 Gbit/s</span>"));
  CHECK(has(page, "</i>bandwidth 100 Gbit/s</span>"));
  CHECK(has(page, "</i>without any loss</span>"));
}

TEST_CASE("axes of times are in the unit that their longest is read in") {
  CHECK(foretrain::time_unit(1.2).name == std::string("s"));
  CHECK(foretrain::time_unit(0.99).name == std::string("ms"));
  CHECK(foretrain::time_unit(1e-3).name == std::string("ms"));
  CHECK(foretrain::time_unit(2e-4).name == std::string("us"));
  std::vector<Result> results;
  for (const double bandwidth : {1.0, 10.0}) {
    Result result = example_result();
    result.workers = 8;
    result.nodes = 2;
    result.step.time = 126 / bandwidth;
    result.inputs.push_back({"cluster.network.bandwidth", fmt::format("{:g} Gbit/s", bandwidth),
                             foretrain::Origin::measured, false});
    results.push_back(result);
  }
  const std::string page = page_of(results);
  CHECK(has(page, "Step over the network's bandwidth"));
  CHECK(has(page, ">s</text>"));
  CHECK(has(page, ">150</text>"));
}

TEST_CASE("axes have round numbers") {
  CHECK(foretrain::axis_ticks(100, 5) == std::vector<double>{0, 20, 40, 60, 80, 100});
  CHECK(foretrain::axis_ticks(7, 5) == std::vector<double>{0, 2, 4, 6, 8});
  CHECK(foretrain::axis_ticks(0, 5) == std::vector<double>{0, 1});
  CHECK(foretrain::axis_ticks(0.3, 3).back() >= 0.3 * 0.99);
}

TEST_CASE("the verdict comes first; bandwidths, links and memory have charts where results tell of them") {
  Result slow = example_result(), fast = example_result();
  for (Result* each : {&slow, &fast}) {
    each->nodes = 2;
    each->workers = 4;
    each->links = {{"nic", 2, 1.25e9, 1e8, 0.9}, {"pcie", 4, 6e10, 1e8, 0.1}};
    each->memory = {};
    each->memory.peak = 8e9;
    each->memory.parameters = 1e9;
    each->memory.activations = 6e9;
    each->memory.capacity = 80e9;
  }
  slow.inputs = {{"cluster.network.bandwidth", "10 Gbit/s"}};
  fast.inputs = {{"cluster.network.bandwidth", "25 Gbit/s"}};
  fast.step.time /= 2;
  const Result both[] = {slow, fast};
  const std::string page = page_of(both);
  CHECK(balanced(page));
  CHECK(page.find("class=\"verdict\"") < page.find("<table>"));
  CHECK(has(page, "<h2>Step over the network's bandwidth</h2>"));
  CHECK(has(page, "2 x 1.25 GB/s: "));
  CHECK_FALSE(has(page, "pcie (4 x"));  // not the busiest
  CHECK(has(page, "8.00 GB of 80.0 GB"));
  // As a bar and among its numbers.
  const std::size_t bar = page.find("8.00 GB of 80.0 GB"), numbers = page.find("8.00 GB of 80.0 GB", bar + 1);
  CHECK(page.find("8.00 GB of 80.0 GB", numbers + 1) == std::string::npos);  // alike: once
  const Result one[] = {slow};
  CHECK_FALSE(has(page_of(one), "Step over the network"));
}

TEST_CASE("of many lines a chart shows some from the first to the last, and no line is of two") {
  std::vector<Result> results;
  for (const int nodes : {2, 3, 4, 5, 6, 7, 8, 16}) {
    for (const char* bucket : {"5 MiB", "25 MiB"}) {
      for (const char* network : {"10 Gbit/s", "100 Gbit/s"}) {
        Result result = example_result();
        result.nodes = nodes;
        result.workers = nodes * 4;
        result.inputs = {{"cluster.nodes", std::to_string(nodes)},
                         {"cluster.network.bandwidth", network},
                         {"strategy.bucket", bucket}};
        results.push_back(result);
      }
    }
  }
  const std::string page = page_of(results);
  CHECK(balanced(page));
  CHECK(has(page, "</i>resnet50, 8 workers, batch 64 each, bucket 25 MiB</span>"));
  CHECK(has(page, "</i>resnet50, 64 workers, batch 64 each, bucket 5 MiB</span>"));
  CHECK_FALSE(has(page, "</i>resnet50, 12 workers, batch 64 each, bucket 25 MiB</span>"));
  CHECK(has(page, "<p class=\"note\">6 of 16 lines.</p>"));
  // Sixteen lines are 0, 3, 6, 9, 12 and 15 of them; four are all.
  CHECK(has(page, "</i>bandwidth 10 Gbit/s, bucket 5 MiB</span>"));
  CHECK(has(page, "</i>bandwidth 100 Gbit/s, bucket 25 MiB</span>"));
}
