#include "calibrate/request_reader.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"

using namespace foretrain;
using namespace foretrain::calibrate;

namespace {

std::string error_of(const std::string& batches, const std::string& precisions, bool collectives_alone) {
  Request request;
  try {
    read_request(batches, precisions, collectives_alone, request);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("lists of batches and precisions") {
  Request request;
  read_request("32, 64,128", "bf16,tf32", false, request);
  CHECK(request.batches == std::vector<std::int64_t>{32, 64, 128});
  CHECK(request.precisions == std::vector<Precision>{Precision::bf16, Precision::tf32});
}

TEST_CASE("all that is wrong in the lists is told at once") {
  const std::string text = error_of("32,x,0,32", "bf61", false);
  CHECK(text.find("'x' is no number") != std::string::npos);
  CHECK(text.find("'0' is no number") != std::string::npos);
  CHECK(text.find("32 is given twice") != std::string::npos);
  CHECK(text.find("unknown 'bf61'") != std::string::npos);
  CHECK(error_of("", "bf16", false).find("needs --batch") != std::string::npos);
  CHECK(error_of("32", "bf16", true).find("without --model") != std::string::npos);
  CHECK(error_of("", "fp32", true).empty());
}
