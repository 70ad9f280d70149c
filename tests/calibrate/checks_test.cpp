#include "calibrate/checks.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/approx.hpp"

using namespace foretrain;
using namespace foretrain::calibrate;
using foretrain::test::approx;

TEST_CASE("parts are held against the whole step, or the device's part where the host sets the pace") {
  CheckRow row;
  row.model = "resnet50";
  row.batch = 64;
  row.step.median = 0.0100;
  row.device = 0.0099;
  row.parts = 0.0101;
  row.host = 0.004;
  CHECK(residual(row) == approx(0.01));
  row.host = 0.02;
  row.step.median = 0.0201;
  CHECK(residual(row) == approx(0.0101 / 0.0099 - 1));

  const auto document = nlohmann::json::parse(checks_to_json({row, row}, {}));
  CHECK(document["schema"] == "foretrain/calibration-check/1");
  REQUIRE(document["rows"].size() == 2);
  CHECK(document["rows"][0]["host_s"] == 0.02);
  CHECK(document["rows"][1]["kind"] == "parts");
  CHECK(checks_to_text({row}).find("host-bound") != std::string::npos);
}
