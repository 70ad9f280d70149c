#include "sim/output/comparison.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/output/example_result.hpp"
#include "tests/support/approx.hpp"

using foretrain::compare;
using foretrain::Comparison;
using foretrain::ComparisonRow;
using foretrain::Result;
using foretrain::test::approx;
using foretrain::test::example_result;

// Speedup for the same samples, S samples, batch b, step t = c n with computing part c:
//   (S / b0) t0 / ((S / b1) t1) = (b1 / b0) (c0 / c1) (n0 / n1)
TEST_CASE("the factors multiply to the speedup, which is the ratio of throughputs") {
  Result one = example_result(), eight = example_result();
  one.job.reset();
  one.workers = 1;
  one.batch_global = 64;
  one.step.time = 0.0221;
  one.step.breakdown.exposed_communication = one.step.breakdown.waiting = 0;
  const std::vector<Result> results{one, eight};
  const Comparison comparison = compare(results);
  CHECK_FALSE(comparison.of_jobs);
  const ComparisonRow& first = comparison.rows[0];
  for (const double factor :
       {first.speedup, first.fewer_updates, first.compute, first.network, first.gpu_time}) {
    CHECK(factor == 1.0);
  }
  const ComparisonRow& second = comparison.rows[1];
  CHECK(second.fewer_updates == 8);
  CHECK(second.compute == approx(0.0221 / 0.0222));
  CHECK(second.network == approx((0.0221 / 0.0221) / (0.0312 / 0.0222)));
  CHECK(second.speedup == approx(second.fewer_updates * second.compute * second.network));
  CHECK(second.speedup == approx((512 / 0.0312) / (64 / 0.0221)));
  CHECK(second.gpu_time == approx(8 / second.speedup));
}

TEST_CASE("jobs are compared by their updates and cost") {
  Result base = example_result(), fewer = example_result();
  fewer.job->updates /= 2;
  fewer.job->time /= 2;
  fewer.job->training /= 2;
  fewer.job->cost = *base.job->cost / 2;
  const Comparison comparison = compare(std::vector<Result>{base, fewer});
  CHECK(comparison.of_jobs);
  CHECK(comparison.rows[1].fewer_updates == approx(2));
  CHECK(comparison.rows[1].speedup == approx(2));
  CHECK(comparison.rows[1].network == approx(1));
  CHECK(comparison.rows[1].rest == approx(1));
  fewer.job->time *= 2;  // the other half goes elsewhere
  CHECK(compare(std::vector<Result>{base, fewer}).rows[1].rest == approx(0.5));
  CHECK(comparison.rows[1].cost == 0.5);
  fewer.job->currency = "EUR";
  CHECK_FALSE(compare(std::vector<Result>{base, fewer}).rows[1].cost);
}

TEST_CASE("a comparison is a table within 80 columns, and JSON") {
  Result named = example_result();
  named.scenario = "a-name-that-is-longer-than-any-column-can-be";
  const Comparison comparison = compare(std::vector<Result>{example_result(), named});
  const std::string text = comparison_text(comparison, {80, false, true});
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    CHECK(foretrain::display_width(text.substr(at, end - at)) <= 80);
    at = end + 1;
  }
  std::string written;
  write_comparison_json(comparison, [&](std::string_view piece) { written += piece; });
  const auto json = nlohmann::json::parse(written);
  CHECK(json["schema"] == "foretrain/comparison/1");
  CHECK(json["rows"].size() == 2);
  CHECK(json["rows"][1]["speedup"] == 1.0);
}

TEST_CASE("rows whose names begin alike stay distinct in the table") {
  Result a = example_result(), b = example_result();
  a.scenario = "case-1-characterization-a";
  b.scenario = "case-1-characterization-b";
  const std::string text = comparison_text(compare(std::vector<Result>{a, b}), {80, false, false});
  CHECK(text.find("\n~a ") != std::string::npos);
  CHECK(text.find("\n~b ") != std::string::npos);
  using Names = std::vector<std::string>;
  CHECK(foretrain::distinct_names({"sweep-of-it (nodes=2 gpus=8)", "sweep-of-it (nodes=4 gpus=8)"}, 14,
                                  {80, false, false}) == Names{"~nodes=2 gpus~", "~nodes=4 gpus~"});
  CHECK(foretrain::distinct_names({"one", "net-16-gpus-long-a", "net-16-gpus-long-b"}, 8,
                                  {80, false, false}) == Names{"one", "~-long-a", "~-long-b"});
}

TEST_CASE("what makes ratios mean less is said: other models, other numbers of samples, no job") {
  Result a = example_result(), b = example_result();
  b.model = "vgg16";
  CHECK(compare(std::vector<Result>{a, a}).warnings.empty());
  CHECK(compare(std::vector<Result>{a, b}).warnings[0].find("the models differ (") == 0);
  b = a;
  b.job->samples = 9 * a.job->samples + 9;
  CHECK(compare(std::vector<Result>{a, b}).warnings[0].find("the jobs pass over ") == 0);
  b.job.reset();
  const Comparison comparison = compare(std::vector<Result>{a, b});
  REQUIRE(comparison.warnings.size() == 1);
  CHECK(comparison_text(comparison, {80, false, false}).find("warning: not all of them have a job") !=
        std::string::npos);
  a.extrapolated = {{"all_reduce", "4 ranks", "2 ranks"}};
  std::string written;
  write_comparison_json(compare(std::vector<Result>{a, b}),
                        [&](std::string_view piece) { written += piece; });
  const auto json = nlohmann::json::parse(written);
  CHECK(json["rows"][0]["extrapolated"][0]["asked"] == "4 ranks");
  CHECK(json["warnings"].size() == 1);
}
