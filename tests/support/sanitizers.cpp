// Settings of GCC's sanitizers for every test program.
#if defined(__SANITIZE_ADDRESS__)

// Its leak check guesses, from the address of a library's thread-local memory, what precedes it,
// and ends the program ("Tracer caught signal 11") if the address looks like an old glibc's.
// Threads free what such memory points to anyway.
// What it finds in a child must not look like the result 1.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "intercept_tls_get_addr=0:exitcode=99";
}

#endif
#if defined(__SANITIZE_THREAD__)

// Detaching a thread that has ended frees its thread-local memory. What orders the two is the
// kernel's word about the thread's end, which the sanitizer does not see.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:_dl_deallocate_tls\n";
}

#endif
