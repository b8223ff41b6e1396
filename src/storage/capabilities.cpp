#include "storage/storage.hpp"

namespace ferry::storage {

std::vector<std::string> limits(const Capabilities& capabilities) {
  std::vector<std::string> lines;
  const auto unless = [&](bool provided, const char* line) {
    if (!provided) lines.emplace_back(line);
  };
  unless(
      capabilities.atomic_append,
      "appends by several clients at once may overwrite each other; those of one process do not");
  unless(capabilities.open_after_unlink,
         "a file that was removed cannot be used on where it is open");
  unless(capabilities.special_files, "devices, FIFOs and sockets cannot be opened");
  unless(capabilities.change_while_open, "what other clients write is seen after opening anew");
  unless(capabilities.cancels_transfers, "a transfer under way cannot be ended early");
  unless(capabilities.tells_holes, "how much room a file with holes takes is not reported");
  unless(capabilities.full_status,
         "times have whole seconds only; hard links and special files are not reported");
  unless(capabilities.rights_at_open,
         "a file's mode counts at each call on it, also for its owner who has it open");
  unless(capabilities.sets_attributes, "permissions, owners and times cannot be changed");
  unless(capabilities.makes_links, "links cannot be made");
  return lines;
}

}  // namespace ferry::storage
