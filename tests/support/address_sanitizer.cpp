// What every test program tells GCC's address sanitizer.
#if defined(__SANITIZE_ADDRESS__)

// Its leak check guesses from the address of a library's thread-local memory what lies before it,
// and ends the program ("Tracer caught signal 11") where that address happens to look like that of
// an old glibc. Such memory belongs to threads, whose ends free what it points to.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "intercept_tls_get_addr=0";
}

#endif
