#include "app/signals.hpp"

#include <execinfo.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "sim/output/file_writer.hpp"

namespace foretrain::app {
namespace {

std::atomic<bool> requested{false};
std::atomic<int> received{0}, writing{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void end_now(int signal) {
  remove_unfinished_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void start_timer() {
  constexpr int patience_us = 900'000;  // all is over within a second
  itimerval timer{};
  timer.it_value.tv_usec = patience_us;
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

void on_interrupt(int signal) {
  if (requested.exchange(true)) {
    end_now(signal);
    return;
  }
  received.store(signal);
  start_timer();
}

void on_patience_over(int) {
  if (writing.load() == 0) end_now(received.load());
}

// A defect of ours or of a library: where it happened, and then the end that it would have had anyway. Only
// calls that are safe here.
void on_crash(int signal) {
  std::signal(signal, SIG_DFL);
  const auto say = [](const char* text) {
    if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
  };
  say("foretrain: crashed (");
  say(signal == SIGSEGV ? "SIGSEGV" : signal == SIGBUS ? "SIGBUS" : signal == SIGFPE ? "SIGFPE" : "SIGILL");
  say("); this is a defect: please report it with the command and these lines\n");
  void* frames[64];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, 64), STDERR_FILENO);
  remove_unfinished_files();
  std::raise(signal);
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
  // A terminal that goes, a batch system's limit of time; nohup has the first ignored, and it stays so.
  for (const int signal : {SIGHUP, SIGXCPU}) {
    struct sigaction inherited {};
    if (::sigaction(signal, nullptr, &inherited) == 0 && inherited.sa_handler != SIG_IGN)
      handle(signal, on_interrupt);
  }
  handle(SIGALRM, on_patience_over);
  void* first[1];
  ::backtrace(first, 1);  // loads what a handler must not
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) handle(signal, on_crash);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file larger than allowed: the write says so
}

Patience::Patience() {
  ++writing;
}

Patience::~Patience() {
  if (--writing == 0 && requested.load()) start_timer();
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
