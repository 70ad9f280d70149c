#include <doctest/doctest.h>

#include <limits>

#include "sim/base/error.hpp"
#include "sim/base/parse_units.hpp"
#include "tests/support/approx.hpp"

using namespace foretrain;
using foretrain::test::approx;

TEST_CASE("a text names a rate as people or as tc write it, or none") {
  const auto bits = [](const char* text) {
    const auto rate = rate_named_in(text);
    return rate ? rate->bytes_per_second() * 8 : 0;
  };
  CHECK(bits("ethernet 10 Gbit/s tcp") == approx(10e9));
  CHECK(bits("ethernet 10gbit tcp") == approx(10e9));
  CHECK(bits("100mbit") == approx(100e6));
  CHECK(bits("rail 2 of 4, 400 Gbit/s rdma") == approx(400e9));
  CHECK(bits("2.5Gbit/s") == approx(2.5e9));
  CHECK(bits("12 GB/s") == approx(96e9));
  CHECK(bits("ethernet") == 0);
  CHECK(bits("10 tcp 4") == 0);
  CHECK(bits("") == 0);
  CHECK(bits("1.2.3 gbit") == 0);
}

TEST_CASE("times are integers of picoseconds and overflow is an error with advice") {
  CHECK(Time::seconds(1.5).count() == 1'500'000'000'000);
  CHECK((Time::seconds(1) + Time::microseconds(2)).count() == 1'000'002'000'000);
  CHECK_THROWS_WITH_AS(Time::max() + Time(1), doctest::Contains("check the units"), Error);
  CHECK_THROWS_AS(Time::seconds(std::numeric_limits<double>::quiet_NaN()), Error);
  CHECK_THROWS_AS(Time::seconds(1e9), Error);
  CHECK(JobTime::from(Time::seconds(2)).in_seconds() == approx(2));
}

TEST_CASE("bytes over a rate: 20 MB over 1 Gbit/s take 160 ms") {
  CHECK((Bytes(20'000'000) / Rate::bits_per_second(1e9)) == Time::seconds(0.160));
  CHECK_THROWS_AS(Bytes(1) / Rate(0), Error);
  CHECK(Bytes(0) / Rate(0) == Time());
}

TEST_CASE("quantities are read with their unit, and nothing else is") {
  CHECK(std::get<Rate>(parse_rate("25 Gbit/s")).bytes_per_second() == approx(3.125e9));
  CHECK(std::get<Rate>(parse_rate("3 GB/s")).bytes_per_second() == approx(3e9));
  CHECK(std::get<Bytes>(parse_bytes("25 MiB")).count() == 26'214'400);
  CHECK(std::get<Bytes>(parse_bytes("25MB")).count() == 25'000'000);
  CHECK(std::get<Time>(parse_time("20 us")) == Time::microseconds(20));
  CHECK(std::get<JobTime>(parse_job_time("1.5 h")).in_seconds() == approx(5400));
  auto reason = [](auto result) { return std::get<UnitError>(result).what; };
  CHECK(reason(parse_rate("10")).find("has no unit") != std::string::npos);
  CHECK(reason(parse_rate("10 Gbps")).find("did you mean 'Gbit/s'?") != std::string::npos);
  for (const char* bits : {"10 Gb/s", "10 gbps", "10 Gbit"})
    CHECK(reason(parse_rate(bits)).find("did you mean 'Gbit/s'?") != std::string::npos);
  CHECK(reason(parse_rate("10 GBps")).find("did you mean 'GB/s'?") != std::string::npos);
  CHECK(reason(parse_rate("10 gb/s")).find("did you mean 'Gbit/s' or 'GB/s'?") != std::string::npos);
  CHECK(reason(parse_rate("10 kb/s")).find("did you mean 'kbit/s'?") != std::string::npos);
  CHECK(reason(parse_bytes("10 gb")).find("did you mean 'GB'?") != std::string::npos);
  CHECK(reason(parse_bytes("-1 MB")).find("negative") != std::string::npos);
  CHECK(reason(parse_time("nan s")).find("not a time") != std::string::npos);
  CHECK(reason(parse_time("1e300 h")).find("too large") != std::string::npos);
  // What would be rounded to nothing is none.
  CHECK(reason(parse_time("0.4 ps")) ==
        "'0.4 ps' is too small for a time within a step (at most 106 days): the smallest is 1 ps");
  CHECK(reason(parse_job_time("1 ps")).find("the smallest is 1 ns") != std::string::npos);
  CHECK(reason(parse_bytes("0.1 B")).find("the smallest is 1 B") != std::string::npos);
  CHECK(reason(parse_rate("1e-300 bit/s")).find("the smallest is 1 bit/s") != std::string::npos);
  CHECK(std::get<Rate>(parse_rate("1 bit/s")).in_bits_per_second() == 1);
  CHECK(std::get<JobTime>(parse_job_time("0 s")) == JobTime());
  CHECK(reason(parse_bytes("ten MB")).find("write a number and a unit") != std::string::npos);
  CHECK(std::get<double>(parse_number("1e3")) == 1000);
  CHECK(std::holds_alternative<UnitError>(parse_number("0x10")));
  CHECK(std::holds_alternative<UnitError>(parse_number("5 s")));
}

TEST_CASE("quantities are shown with the unit that fits") {
  CHECK(format_time(0.0246) == "24.6 ms");
  CHECK(format_time(5400) == "90.0 min");
  CHECK(format_time(90000) == "25.0 h");
  CHECK(format_time(0) == "0 ps");
  CHECK(format_bytes(102e6) == "102 MB");
  CHECK(format_bit_rate(Rate::bits_per_second(25e9)) == "25.0 Gbit/s");
  CHECK(format_byte_rate(Rate(3.13e9)) == "3.13 GB/s");
}
