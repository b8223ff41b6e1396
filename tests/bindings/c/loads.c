// LIBRARY: loads libferry.so.0 at run time, beside a libstdc++ whose names all can see, and calls
// it: exceptions stay inside, whichever copies there are.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ferry.h>
#include <stdio.h>

static void* library;

static void* find(const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) fprintf(stderr, "%s\n", dlerror());
  return found;
}

// C has no conversion from a pointer to data to one to a function.
#define FIND(name) (*(__typeof__(&name)*)&(void*){find(#name)})

static int counts(ferry_thread* thread, void* user) {
  (void)thread;
  ++*(int*)user;
  return 0;
}

static int check(int right, const char* what) {
  if (!right) fprintf(stderr, "not so: %s\n", what);
  return right ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (dlopen("libstdc++.so.6", RTLD_NOW | RTLD_GLOBAL) == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  ferry_file* file = NULL;
  ferry_runtime* runtime = NULL;
  int ran = 0;
  int wrong = check(FIND(ferry_open)(&file, "/no/such", O_RDONLY, 0) == -ENOENT, "ENOENT");
  wrong += check(FIND(ferry_error_text)()[0] == '/', "the text names the path");
  ferry_runtime_options options = FERRY_RUNTIME_OPTIONS_INIT;
  options.device_threads = 1;
  options.arena_bytes = 1 << 20;
  wrong += check(FIND(ferry_runtime_create)(&runtime, &options) == 0, "a runtime");
  wrong += check(FIND(ferry_runtime_run)(runtime, counts, &ran) == 0 && ran == 1, "a program");
  wrong += check(FIND(ferry_runtime_destroy)(runtime) == 0, "its end");
  wrong += check(dlvsym(library, "ferry_open", "FERRY_0") != NULL, "the version of ferry_open");
  dlclose(library);
  return wrong == 0 ? 0 : 1;
}
