// The allocator's settings for a short-lived program that reads megabytes.
#pragma once

namespace foretrain::app {

// Keeps freed memory for what comes next, and lets the first megabytes of the heap lie in huge pages where
// the system has them on request: with small pages, first touches were a fifth of a simulation's time on a
// virtual machine. glibc on Linux; nothing elsewhere.
void prepare_heap();

}  // namespace foretrain::app
