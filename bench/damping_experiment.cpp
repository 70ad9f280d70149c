// A linear network of three layers trained for real on the reference backend, once by each rule of the batch:
// gradient descent, SGD, SGD with a falling rate, AdaDamp, PadaDamp, GeoDamp. Writes CSV: rule, update,
// samples, seconds, batch, excess loss (over the loss that gradient descent ends at after many updates).
// tools/damping_figure.py draws it.
//
//   damping_experiment > validation/damping/results.csv
//
// `samples` are gradients of samples, `seconds` this machine's for updates and for the looks at the loss that
// AdaDamp pays for; looks for the curve are not counted. Passes are of 4 samples, so batches are rounded up
// to multiples of 4.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include "device/reference/backend.hpp"
#include "sim/base/random.hpp"
#include "sim/training/model_builder.hpp"

namespace foretrain {
namespace {

constexpr std::int64_t samples_in_all = 2000, pass = 4;
constexpr std::int64_t first_batch = 8;
constexpr double first_rate = 0.1;

Model linear_network() {
  ModelBuilder b("linear-network", {1, 4, 5}, 3);
  int x = b.flatten("flatten", b.input());
  x = b.linear("fc1", x, 20, false);
  x = b.linear("fc2", x, 20, false);
  b.softmax_cross_entropy("loss", b.linear("fc3", x, 3, false));
  return b.finish();
}

// Normal inputs; labels drawn from the softmax of a random linear map, so that the least loss is above zero.
struct Data {
  std::vector<float> inputs;
  std::vector<std::int32_t> labels;
};

Data made_data(const Model& model) {
  RandomStream random(11, {0});
  const std::int64_t width = element_count(model.input);
  std::vector<double> teacher(static_cast<std::size_t>(width * model.classes));
  for (double& value : teacher) value = random.normal() / std::sqrt(static_cast<double>(width)) * 2;
  Data data;
  for (std::int64_t i = 0; i < samples_in_all; ++i) {
    std::vector<double> logits(static_cast<std::size_t>(model.classes));
    for (std::int64_t e = 0; e < width; ++e) {
      const double value = random.normal();
      data.inputs.push_back(static_cast<float>(value));
      for (std::size_t c = 0; c < logits.size(); ++c)
        logits[c] += value * teacher[c * static_cast<std::size_t>(width) + static_cast<std::size_t>(e)];
    }
    // The largest of logits with Gumbel noise is a draw from their softmax.
    for (double& logit : logits) logit -= std::log(-std::log(random.uniform() + 1e-300));
    data.labels.push_back(
        static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
  }
  return data;
}

struct Looked {
  std::int64_t update = 0, samples = 0, batch = 0;
  double seconds = 0, loss = 0;
};

struct Rule {
  std::string name;
  // From the update, the epochs so far, and the loss's share of the first one as last seen.
  std::function<double(std::int64_t update, double epochs, double left)> batch;
  std::function<double(std::int64_t update)> rate;
  std::int64_t updates = 0;
  bool looks = false;  // the rule pays for seeing the loss, every `dwell` updates
};

class Training {
 public:
  Training(const Model& model, const Data& data) : model_(model), data_(data) {
    device::BuildOptions build;
    build.batch = pass;
    build.optimizer = {};
    build.optimizer.learning_rate = first_rate;
    worker_ = backend_->make_worker(0);
    program_ = worker_->build(model, build);
    order_.resize(static_cast<std::size_t>(samples_in_all));
    std::iota(order_.begin(), order_.end(), 0);
  }

  std::vector<Looked> run(const Rule& rule, double least_loss, bool is_drawn = true) {
    constexpr std::int64_t dwell = 10;
    std::vector<Looked> out;
    std::int64_t seen = 0, next_point = 0;
    double seconds = 0;
    const double first = loss() - least_loss;
    double left = 1;
    for (std::int64_t update = 0; update < rule.updates; ++update) {
      const bool is_point = is_drawn && update >= next_point;
      if (is_point) {
        // Closer together at the beginning, 2 % apart later.
        next_point = std::max(update + 2, update + update / 50);
        out.push_back({update, seen, out.empty() ? 0 : out.back().batch, seconds, loss()});
      }
      const auto begin = std::chrono::steady_clock::now();
      if (rule.looks && update % dwell == 0) left = (loss() - least_loss) / first;
      const double epochs = static_cast<double>(seen) / static_cast<double>(samples_in_all);
      const double wanted =
          std::clamp(std::ceil(rule.batch(update, epochs, left)), 1.0, static_cast<double>(samples_in_all));
      const std::int64_t passes = (static_cast<std::int64_t>(wanted) + pass - 1) / pass;
      step(passes, rule.rate(update));
      seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      seen += passes * pass;
      if (is_point) out.back().batch = passes * pass;
    }
    out.push_back({rule.updates, seen, out.empty() ? 0 : out.back().batch, seconds, loss()});
    return out;
  }

 private:
  void step(std::int64_t passes, double rate) {
    program_->set_learning_rate(rate);
    program_->set_gradient_scale(1.0 / static_cast<double>(passes));
    program_->prepare_weights();
    program_->zero_gradients();
    for (std::int64_t i = 0; i < passes; ++i) {
      program_->accumulate_gradients(i > 0);
      set_input([this] { return next(); });
      for (const auto& item : program_->forward_items()) program_->issue(item);
      for (const auto& item : program_->backward_items()) program_->issue(item);
    }
    program_->update();
    worker_->synchronize();
  }

  double loss() {
    double sum = 0;
    program_->prepare_weights();
    for (std::int64_t at = 0; at < samples_in_all;) {
      set_input([&at] { return static_cast<std::size_t>(at++); });
      for (const auto& item : program_->forward_items()) program_->issue(item);
      sum += program_->loss() * pass;
    }
    return sum / static_cast<double>(samples_in_all);
  }

  template <typename Next>
  void set_input(const Next& next) {
    const auto width = static_cast<std::size_t>(element_count(model_.input));
    inputs_.clear();
    labels_.clear();
    for (std::int64_t i = 0; i < pass; ++i) {
      const std::size_t at = next();
      const auto from = data_.inputs.begin() + static_cast<std::ptrdiff_t>(at * width);
      inputs_.insert(inputs_.end(), from, from + static_cast<std::ptrdiff_t>(width));
      labels_.push_back(data_.labels[at]);
    }
    program_->set_input(inputs_, labels_);
  }

  // Without replacement, in a new order each epoch.
  std::size_t next() {
    if (place_ == 0) {
      for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random_.next() % i]);
    }
    const std::size_t out = order_[place_];
    place_ = (place_ + 1) % order_.size();
    return out;
  }

  const Model& model_;
  const Data& data_;
  std::unique_ptr<device::Backend> backend_ = device::reference::make_backend();
  std::unique_ptr<device::Worker> worker_;
  std::unique_ptr<device::Program> program_;
  std::vector<std::size_t> order_;
  std::size_t place_ = 0;
  RandomStream random_{3, {1}};
  std::vector<float> inputs_;
  std::vector<std::int32_t> labels_;
};

void experiment() {
  const Model model = linear_network();
  const Data data = made_data(model);
  constexpr std::int64_t updates = 1000, many = 10'000;
  const auto all = [](std::int64_t, double, double) { return static_cast<double>(samples_in_all); };
  const auto same_rate = [](std::int64_t) { return first_rate; };
  const auto constant = [](std::int64_t, double, double) { return static_cast<double>(first_batch); };
  const double least = Training(model, data).run({"", all, same_rate, many, false}, 0, false).back().loss;
  const std::vector<Rule> rules = {
      {"gradient descent", all, same_rate, updates, false},
      {"SGD", constant, same_rate, 40 * updates, false},
      {"SGD, falling rate", constant,
       [](std::int64_t update) { return first_rate / (1 + static_cast<double>(update) / 500); }, 40 * updates,
       false},
      {"AdaDamp",
       [](std::int64_t, double, double left) {
         return static_cast<double>(first_batch) / std::max(1e-9, left);
       },
       same_rate, updates, true},
      {"PadaDamp",
       [](std::int64_t update, double, double) {
         return static_cast<double>(first_batch) + 0.5 * static_cast<double>(update);
       },
       same_rate, updates, false},
      {"GeoDamp",
       [](std::int64_t, double epochs, double) {
         return static_cast<double>(first_batch) * std::pow(2, std::floor(epochs));
       },
       same_rate, updates, false}};
  fmt::print("rule,update,samples,seconds,batch,excess_loss\n");
  for (const Rule& rule : rules) {
    for (const Looked& at : Training(model, data).run(rule, least)) {
      fmt::print("\"{}\",{},{},{:.6f},{},{:.6g}\n", rule.name, at.update, at.samples, at.seconds, at.batch,
                 at.loss - least);
    }
  }
}

}  // namespace
}  // namespace foretrain

int main() {
  foretrain::experiment();
}
