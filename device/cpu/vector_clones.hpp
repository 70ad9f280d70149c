// A function compiled once for each generation of vector units; the loader takes the best that the processor
// has.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define FORETRAIN_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FORETRAIN_VECTOR_CLONES
#endif

// Before a loop: what it writes it does not read through another pointer. clang finds that out by itself, at
// the loop's beginning.
#if defined(__clang__)
#define FORETRAIN_NO_ALIAS
#else
#define FORETRAIN_NO_ALIAS _Pragma("GCC ivdep")
#endif
