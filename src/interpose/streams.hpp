// What fork has to know of C stdio's streams.
#pragma once

namespace ferry::iobuf {

// From before a fork to behind it no other thread is in the list of streams, the C library's or
// this library's. The C library has its own list locked while it flushes all streams, and custom
// ones then wait for the locks of files: so lock the streams first.
void lock_streams();
void unlock_streams();
void unlock_streams_in_child();

}  // namespace ferry::iobuf
