// Loaded before a program's libraries (LD_PRELOAD): its wall clock jumps two hours forwards and backwards,
// anew with each reading, as where somebody sets it. Clocks that only run on are left alone.
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace {

std::atomic<unsigned> readings{0};

time_t jump() {
  constexpr time_t hour = 3600;
  return readings++ % 2 == 0 ? hour : -hour;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto status = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += jump();
  return status;
}

int gettimeofday(timeval* __restrict time, void* __restrict) noexcept {
  timespec now{};
  const int status = clock_gettime(CLOCK_REALTIME, &now);
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return status;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
