// The kernel's description of the processor.
#pragma once

#include <string>

namespace ferry {

// The first "key : value" line of /proc/cpuinfo; empty if there is none.
std::string cpuinfo_value(const std::string& key);

// The processor's common name; empty if the kernel does not report it.
std::string cpu_model();

}  // namespace ferry
