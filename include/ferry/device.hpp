// Include this in device programs: file calls, and the groups that make them.
#pragma once

#include <ferry/device/file_calls.hpp>
#include <ferry/device/group.hpp>
