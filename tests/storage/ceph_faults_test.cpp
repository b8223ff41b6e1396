// A Ceph cluster whose servers end, hang or come back while requests are under way. Needs one that
// may be treated like that: the rig's (FERRY_TEST_RIG is the program that controls it).
#include <gtest/gtest.h>
