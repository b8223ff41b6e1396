// Included before everything else in instrumented sources: their memcpy is that of points.cpp.
#pragma once

extern "C" void* memcpy(void* __restrict to, const void* __restrict from,
                        __SIZE_TYPE__ bytes) noexcept __asm__("ferry_simulated_memcpy");
