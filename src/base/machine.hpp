// What the kernel says about the processor.
#pragma once

#include <string>

namespace ferry {

// The first "key : value" line of /proc/cpuinfo; empty where there is none.
std::string cpuinfo_value(const std::string& key);

// The processor's name as people know it; empty on architectures whose kernel does not tell.
std::string cpu_model();

}  // namespace ferry
