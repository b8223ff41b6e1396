// Folders that are other storages' files, for one program and those that it starts.
#pragma once

#include <string>
#include <vector>

namespace ferry::fuse {

struct FolderMap {
  std::string folder;  // an absolute path without links; an existing folder
  std::string target;  // a path or URI of a directory
};

// Moves this process, which must have one thread, into a mount namespace of its own in which each
// folder holds its target's files. With the right to mount that is all; without it, also into a
// user namespace, where the user stays who he is and sees all of these files as his own.
//
// For each map a process answers the kernel. It is a child of init, stays outside the namespace,
// and ends when the last process in the namespace has ended. Throws std::runtime_error with a line
// that says what is wrong; this process should end then. Waits for each target's storage as long as
// that takes to answer two requests.
void enter_namespace(std::vector<FolderMap> maps);

}  // namespace ferry::fuse
