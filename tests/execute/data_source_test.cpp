#include "execute/data_source.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "execute/batch_reader.hpp"
#include "sim/base/error.hpp"
#include "sim/training/model_builder.hpp"
#include "tests/app/subprocess.hpp"
#include "tests/support/approx.hpp"
#include "tests/support/models.hpp"

using namespace foretrain;
using foretrain::test::approx;

namespace {

Model images_of_cifar() {
  ModelBuilder b("small", {3, 32, 32}, 10);
  const int x = b.linear("fc", b.flatten("flatten", b.input()), 10, true);
  b.softmax_cross_entropy("loss", x);
  return b.finish();
}

// Sample i of file f has class (i + f) % 10, and pixels that all are i % 251.
std::string made_file(int file) {
  std::string bytes;
  for (int i = 0; i < 10000; ++i) {
    bytes += static_cast<char>((i + file) % 10);
    bytes.append(3072, static_cast<char>(i % 251));
  }
  return bytes;
}

}  // namespace

TEST_CASE("batches depend on their place alone") {
  const Model model = test::tiny_cnn();
  const auto data = make_learnable_data(model, 3);
  Batch a, b;
  data->fill({7, 4, 1, 2}, a);
  data->fill({8, 4, 1, 2}, b);
  CHECK(a.samples != b.samples);
  data->fill({7, 4, 1, 2}, b);
  CHECK(a.samples == b.samples);
  CHECK(a.labels == b.labels);
  CHECK(a.samples.size() == 4u * 3 * 12 * 12);
  make_learnable_data(model, 4)->fill({7, 4, 1, 2}, b);
  CHECK(a.samples != b.samples);
}

TEST_CASE("a reader keeps batches ready in order") {
  const Model model = test::tiny_mlp();
  const auto data = make_learnable_data(model, 3);
  BatchReader reader(*data, {0, 2, 0, 2}, [](BatchPlace& place) { ++place.update; });
  for (std::int64_t update = 0; update < 20; ++update) {
    Batch expected;
    data->fill({update, 2, 0, 2}, expected);
    reader.take([&](const Batch& batch) { CHECK(batch.samples == expected.samples); });
  }
}

TEST_CASE("CIFAR-10: each sample once an epoch, scaled") {
  const test::TemporaryFolder folder;
  for (int file = 1; file <= 5; ++file)
    folder.write("data_batch_" + std::to_string(file) + ".bin", made_file(file));
  const Model model = images_of_cifar();
  const auto data = open_cifar10(folder.path("."), model, 1);
  std::vector<int> classes(10);
  double sum = 0, squares = 0;
  std::size_t count = 0;
  Batch batch;
  for (std::int64_t update = 0; update < 50; ++update) {
    data->fill({update, 1000, 0, 1}, batch);
    for (std::int32_t label : batch.labels) ++classes[static_cast<std::size_t>(label)];
    for (std::size_t i = 0; i < batch.samples.size(); i += 1024) {
      sum += batch.samples[i];
      squares += std::pow(batch.samples[i], 2);
      ++count;
    }
  }
  for (int each : classes) CHECK(each == 5000);
  CHECK(sum / static_cast<double>(count) == doctest::Approx(0).epsilon(1e-3));
  CHECK(squares / static_cast<double>(count) == approx(1).epsilon(1e-3));
  // The next epoch comes in another order.
  Batch first, later;
  data->fill({0, 100, 0, 1}, first);
  data->fill({500, 100, 0, 1}, later);
  CHECK(first.labels != later.labels);

  CHECK_THROWS_WITH_AS(open_cifar10(folder.path("."), test::tiny_cnn(), 1),
                       doctest::Contains("CIFAR-10 has images"), Error);
  folder.write("data_batch_3.bin", made_file(3).substr(1));
  CHECK_THROWS_WITH_AS(open_cifar10(folder.path("."), model, 1),
                       doctest::Contains("data_batch_3.bin is no file"), Error);
  CHECK_THROWS_AS(make_data_source("mnist", model, 1), Error);
  CHECK(make_data_source("synthetic", model, 1) == nullptr);
}
