// Hides harmless races from the thread sanitizer.
#pragma once

#if defined(__SANITIZE_THREAD__)
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
}
#endif

namespace ferry {

// While it lives, this thread's reads are not checked against others' writes. For system calls that
// read memory that others may change.
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
