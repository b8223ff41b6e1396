// What the thread sanitizer must not take for a race.
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}
#endif

namespace ferry {

// While it lives, what this thread reads is not compared with what others write. For system calls
// that read memory on behalf of others who may change it meanwhile.
class [[maybe_unused]] UnseenReads {
 public:
#if defined(__SANITIZE_THREAD__)
  UnseenReads() {
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  }
  ~UnseenReads() {
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
#else
  UnseenReads() = default;
  ~UnseenReads() = default;
#endif
  UnseenReads(const UnseenReads&) = delete;
  UnseenReads& operator=(const UnseenReads&) = delete;
};

}  // namespace ferry
