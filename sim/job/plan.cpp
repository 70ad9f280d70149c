#include "sim/job/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"

namespace foretrain {
namespace {

class Planner {
 public:
  Planner(std::span<const Result> results, std::span<const std::string> names, const PlanBounds& bounds)
      : results_(results), names_(names) {
    plan_.bounds = bounds;
  }

  Plan make() {
    fill();
    choose();
    mark_front();
    if (!plan_.fastest) relax();
    find_bend();
    return std::move(plan_);
  }

 private:
  void fill() {
    const bool priced = std::all_of(results_.begin(), results_.end(),
                                    [](const Result& r) { return r.job->cost.has_value(); });
    plan_.expense = priced ? results_[0].job->currency : "GPU-hours";
    if (plan_.bounds.budget && !priced) {
      throw Error(ErrorKind::input,
                  "plan: --budget needs a price: add 'price: 2.50 USD/gpu-hour' to the job");
    }
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const JobPrediction& job = *results_[i].job;
      if (priced && job.currency != plan_.expense) {
        throw Error(ErrorKind::input,
                    fmt::format("plan: prices in {} and {} cannot be compared", plan_.expense, job.currency));
      }
      PlanRow row{.name = names_[i],
                  .result = i,
                  .time = job.time,
                  .expense = priced ? *job.cost : job.gpu_hours,
                  .fits_memory = results_[i].memory.fits,
                  .warnings = results_[i].warnings,
                  .extrapolated = results_[i].extrapolated};
      for (const JobPhase& phase : job.phases) row.workers = std::max(row.workers, phase.workers);
      row.feasible = row.fits_memory && overrun(row) <= 1;
      plan_.rows.push_back(std::move(row));
    }
    if (plan_.bounds.budget && plan_.bounds.currency != plan_.expense) {
      throw Error(ErrorKind::input, fmt::format("plan: the budget is in {}, the price in {}",
                                                plan_.bounds.currency, plan_.expense));
    }
  }

  // The larger of time over deadline and expense over budget.
  double overrun(const PlanRow& row) const {
    const double late = plan_.bounds.deadline ? row.time / *plan_.bounds.deadline : 0;
    const double dear = plan_.bounds.budget ? row.expense / *plan_.bounds.budget : 0;
    return std::max(late, dear);
  }

  template <typename Among, typename Key>
  std::optional<std::size_t> least(Among among, Key key) const {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < plan_.rows.size(); ++i) {
      if (among(plan_.rows[i]) && (!best || key(plan_.rows[i]) < key(plan_.rows[*best]))) best = i;
    }
    return best;
  }

  void choose() {
    auto feasible = [](const PlanRow& row) { return row.feasible; };
    plan_.fastest = least(feasible, [](const PlanRow& row) { return std::pair(row.time, row.expense); });
    plan_.cheapest = least(feasible, [](const PlanRow& row) { return std::pair(row.expense, row.time); });
  }

  void relax() {
    auto fits = [](const PlanRow& row) { return row.fits_memory; };
    plan_.nearest = least(fits, [&](const PlanRow& row) { return std::pair(overrun(row), row.expense); });
    if (!plan_.nearest) {
      plan_.advice.push_back("No row fits in the memory of its GPUs: take a smaller batch a worker.");
      return;
    }
    const auto& bounds = plan_.bounds;
    const auto in_budget = least(
        [&](const PlanRow& row) {
          return row.fits_memory && (!bounds.budget || row.expense <= *bounds.budget);
        },
        [](const PlanRow& row) { return row.time; });
    const auto in_time = least(
        [&](const PlanRow& row) {
          return row.fits_memory && (!bounds.deadline || row.time <= *bounds.deadline);
        },
        [](const PlanRow& row) { return row.expense; });
    if (bounds.deadline && in_budget) {
      const PlanRow& row = plan_.rows[*in_budget];
      plan_.advice.push_back(fmt::format("Relax the deadline to {}: {} {}.", format_time(row.time), row.name,
                                         bounds.budget ? "is within the budget" : "is the fastest"));
    }
    if (bounds.budget && in_time) {
      const PlanRow& row = plan_.rows[*in_time];
      plan_.advice.push_back(fmt::format("Relax the budget to {:.2f} {}: {} {}.", row.expense, plan_.expense,
                                         row.name,
                                         bounds.deadline ? "meets the deadline" : "is the cheapest"));
    }
    if (bounds.deadline && bounds.budget && !in_budget && !in_time) {
      plan_.advice.push_back("Neither bound is met by any row: relax both, or vary more.");
    }
  }

  // Rows that no other beats in time and expense alike, from cheap to fast.
  std::vector<std::size_t> by_expense() const {
    std::vector<std::size_t> order(plan_.rows.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(plan_.rows[a].expense, plan_.rows[a].time) <
             std::pair(plan_.rows[b].expense, plan_.rows[b].time);
    });
    return order;
  }

  void mark_front() {
    double fastest = std::numeric_limits<double>::infinity();
    for (std::size_t i : by_expense()) {
      if (!plan_.rows[i].fits_memory || plan_.rows[i].time >= fastest) continue;
      fastest = plan_.rows[i].time;
      plan_.rows[i].on_front = true;
    }
  }

  // Along the front: from where a tenth of the time costs more than a doubling.
  void find_bend() {
    const PlanRow* before = nullptr;
    for (std::size_t i : by_expense()) {
      const PlanRow& row = plan_.rows[i];
      if (!row.on_front) continue;
      if (before != nullptr && before->expense > 0) {
        const double saved = std::log(before->time / row.time),
                     paid = std::log(row.expense / before->expense);
        constexpr double bends = 0.15;  // ln(1/0.9) / ln 2
        if (paid > 0.01 && saved / paid < bends) {
          plan_.advice.push_back(fmt::format(
              "Beyond {} time hardly falls any more: {} is {:.1f} % faster and costs {:.0f} % more.",
              before->name, row.name, 100 * (1 - row.time / before->time),
              100 * (row.expense / before->expense - 1)));
          return;
        }
      }
      before = &row;
    }
    // More workers that are slower or as slow: the batch does not feed them.
    std::vector<const PlanRow*> rows;
    for (const PlanRow& row : plan_.rows) rows.push_back(&row);
    std::stable_sort(rows.begin(), rows.end(),
                     [](const PlanRow* a, const PlanRow* b) { return a->workers < b->workers; });
    const auto best = std::min_element(rows.begin(), rows.end(),
                                       [](const PlanRow* a, const PlanRow* b) { return a->time < b->time; });
    if (best != rows.end() && (*best)->workers < rows.back()->workers) {
      plan_.advice.push_back(fmt::format("More than {} workers buy nothing: {} is the fastest of all.",
                                         (*best)->workers, (*best)->name));
    }
  }

  std::span<const Result> results_;
  std::span<const std::string> names_;
  Plan plan_;
};

}  // namespace

Plan plan_of(std::span<const Result> results, std::span<const std::string> names, const PlanBounds& bounds) {
  for (const Result& result : results) {
    if (!result.job)
      throw Error(ErrorKind::input,
                  "plan: the scenario has no job: add 'job: { epochs: 90 }' and its data set");
  }
  return Planner(results, names, bounds).make();
}

std::pair<double, std::string> parse_budget(const std::string& text) {
  std::size_t at = text.size();
  while (at > 0 && std::isupper(static_cast<unsigned char>(text[at - 1])) != 0) --at;
  const std::string currency = text.substr(at);
  while (at > 0 && text[at - 1] == ' ') --at;
  const auto number = parse_number(text.substr(0, at));
  const auto* amount = std::get_if<double>(&number);
  if (currency.size() != 3 || amount == nullptr || !(*amount > 0)) {
    throw Error(ErrorKind::input, fmt::format("--budget: '{}' is no amount: write it as in 400USD", text));
  }
  return {*amount, currency};
}

}  // namespace foretrain
