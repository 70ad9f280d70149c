#include "app/signals.hpp"

#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "sim/output/file_writer.hpp"

namespace foretrain::app {
namespace {

std::atomic<bool> requested{false};
std::atomic<int> received{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void end_now(int signal) {
  remove_unfinished_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void on_interrupt(int signal) {
  if (requested.exchange(true)) {
    end_now(signal);
    return;
  }
  received.store(signal);
  constexpr int patience_us = 900'000;  // all is over within a second
  itimerval timer{};
  timer.it_value.tv_usec = patience_us;
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

void on_patience_over(int) {
  end_now(received.load());
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  // The handlers do not interrupt each other, and end_now's raise takes effect when its handler returns.
  sigfillset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void install_signal_handlers() {
  handle(SIGINT, on_interrupt);
  handle(SIGTERM, on_interrupt);
  handle(SIGALRM, on_patience_over);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file larger than allowed: the write says so
}

const std::atomic<bool>& interrupt_requested() {
  return requested;
}

int signal_received() {
  return received.load();
}

void die_by_signal(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  std::_Exit(128 + signal);
}

}  // namespace foretrain::app
