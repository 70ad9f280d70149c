#include "sim/job/plan.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"
#include "sim/output/plan_report.hpp"

using namespace foretrain;

namespace {

// Jobs of so many workers, hours and dollars.
struct Jobs {
  std::vector<Result> results;
  std::vector<std::string> names;

  void add(int workers, double hours, double cost) {
    Result result;
    result.job.emplace();
    result.job->time = hours * 3600;
    result.job->cost = cost;
    result.job->currency = "USD";
    result.job->phases.push_back({1, 1, workers, 1, 1, 1, 1, 0, 0});
    results.push_back(result);
    names.push_back("nodes=" + std::to_string(workers));
  }
  Plan plan(const PlanBounds& bounds) const { return plan_of(results, names, bounds); }
};

Jobs four_jobs() {
  Jobs jobs;
  jobs.add(1, 40, 100);
  jobs.add(2, 21, 105);
  jobs.add(4, 12, 120);
  jobs.add(8, 11.5, 230);
  jobs.add(16, 13, 520);
  return jobs;
}

}  // namespace

TEST_CASE("a plan names the cheapest and the fastest row within the bounds, and the front") {
  const Plan plan = four_jobs().plan({24 * 3600.0, 400, "USD"});
  CHECK(plan.cheapest == 1);
  CHECK(plan.fastest == 3);
  CHECK_FALSE(plan.nearest);
  CHECK(plan.rows[0].on_front);
  CHECK(plan.rows[3].on_front);
  CHECK_FALSE(plan.rows[4].on_front);
  CHECK_FALSE(plan.rows[0].feasible);
  // From 4 to 8: 4 % faster for 92 % more.
  REQUIRE(plan.advice.size() == 1);
  CHECK(plan.advice[0].find("Beyond nodes=4 time hardly falls") == 0);
  const std::string text = plan_text(plan, {});
  CHECK(text.find("Cheapest: nodes=2: 21.0 h, 105.00 USD") != std::string::npos);
  CHECK(text.find("too late") != std::string::npos);
}

TEST_CASE("where the curve bends: the number of workers beyond which more of them buy nothing") {
  Jobs jobs;
  jobs.add(1, 40, 100);
  jobs.add(2, 21, 105);
  jobs.add(4, 12, 120);
  jobs.add(8, 12.5, 250);
  jobs.add(16, 13, 520);
  const Plan plan = jobs.plan({});
  REQUIRE(plan.advice.size() == 1);
  CHECK(plan.advice[0] == "More than 4 workers buy nothing: nodes=4 is the fastest of all.");
  CHECK_FALSE(plan.rows[3].on_front);
  // As long as each doubling pays, nothing is said.
  Jobs scaling;
  for (int workers = 1; workers <= 16; workers *= 2) scaling.add(workers, 40.0 / workers, 100 + workers);
  CHECK(scaling.plan({}).advice.empty());
  // A tenth of the time for twice the money is the bend.
  scaling.add(32, 2.4, 230);
  REQUIRE(scaling.plan({}).advice.size() == 1);
  CHECK(scaling.plan({}).advice[0] ==
        "Beyond nodes=16 time hardly falls any more: nodes=32 is 4.0 % faster and costs 98 % more.");
}

TEST_CASE("where nothing fits, the nearest miss and what to relax") {
  const Plan plan = four_jobs().plan({10 * 3600.0, 110, "USD"});
  CHECK_FALSE(plan.cheapest);
  CHECK(plan.nearest == 2);  // 1.2 times the deadline, 1.09 times the budget
  REQUIRE(plan.advice.size() >= 1);
  CHECK(plan.advice[0].find("Relax the deadline to 21.0 h: nodes=2 is within the budget") == 0);
  const Plan late = four_jobs().plan({12 * 3600.0, 110, "USD"});
  CHECK(late.advice[1].find("Relax the budget to 120.00 USD: nodes=4 meets the deadline") == 0);
}

TEST_CASE("bounds are read, and what does not fit together is refused") {
  CHECK(parse_budget("400USD") == std::pair(400.0, std::string("USD")));
  CHECK(parse_budget("12.5 EUR").first == 12.5);
  CHECK_THROWS_AS(parse_budget("400"), Error);
  CHECK_THROWS_AS(parse_budget("USD"), Error);
  CHECK_THROWS_WITH_AS(four_jobs().plan({{}, 100, "EUR"}), "plan: the budget is in EUR, the price in USD",
                       Error);
  Jobs unpriced = four_jobs();
  for (Result& result : unpriced.results) result.job->cost.reset();
  CHECK_THROWS_WITH_AS(unpriced.plan({{}, 100, "USD"}), doctest::Contains("needs a price"), Error);
  CHECK(unpriced.plan({24 * 3600.0, {}, ""}).expense == "GPU-hours");
  Jobs none = four_jobs();
  none.results[0].job.reset();
  CHECK_THROWS_WITH_AS(none.plan({}), doctest::Contains("no job"), Error);
}
