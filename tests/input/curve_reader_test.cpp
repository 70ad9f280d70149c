#include <doctest/doctest.h>

#include "sim/input/job_reader.hpp"

using namespace foretrain;

TEST_CASE("a curve is read from CSV, by runs") {
  Diagnostics diagnostics;
  const auto curve = parse_curve("# from somewhere\nrun,epochs,accuracy\na,1,0.5\na,2,0.75\nb,1,0.25\n",
                                 "c.csv", diagnostics);
  REQUIRE(curve);
  CHECK(curve->by_epochs);
  CHECK(curve->is_accuracy);
  REQUIRE(curve->runs.size() == 2);
  CHECK(curve->runs[0][1] == std::pair(2.0, 0.75));
  CHECK(curve->runs[1].size() == 1);
}

TEST_CASE("what is wrong with a curve is told by line") {
  auto errors = [](const std::string& text) {
    Diagnostics diagnostics;
    CHECK(parse_curve(text, "c.csv", diagnostics) == nullptr);
    REQUIRE_FALSE(diagnostics.ok());
    return diagnostics.errors().front().text();
  };
  CHECK(errors("step,value\n1,2\n").starts_with("c.csv:1: a curve has a column 'updates'"));
  CHECK(errors("updates,loss\n1,x\n").starts_with("c.csv:2: "));
  CHECK(errors("updates,loss\n1\n").starts_with("c.csv:2: a value is missing"));
  CHECK(errors("updates,loss\n2,1\n1,1\n").starts_with("c.csv:3: a curve ascends"));
  CHECK(errors("updates,loss\n").starts_with("c.csv: the curve has no points"));
  CHECK(errors("epoch,loss\n1,2\n").ends_with("; the head names 'epoch', 'loss'"));
  CHECK(errors("epochs,loss\n-5,4\n90,2\n").starts_with("c.csv:2: a curve begins at 0"));
}

TEST_CASE("a curve may be separated by semicolons or tabs and begin with a byte-order mark") {
  for (const char* text : {"epochs;loss\r\n0;4\r\n90;2\r\n", "epochs\tloss\n0\t4\n90\t2\n",
                           "\xef\xbb\xbf"
                           "epochs,loss\n0,4\n90,2\n"}) {
    CAPTURE(text);
    Diagnostics diagnostics;
    const auto curve = parse_curve(text, "c.csv", diagnostics);
    REQUIRE(curve);
    CHECK(curve->runs[0] == std::vector<std::pair<double, double>>{{0, 4}, {90, 2}});
  }
}
