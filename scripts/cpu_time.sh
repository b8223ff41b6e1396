# For scripts to source: the CPU time of what they run.

# Sets `cpu_s` to the seconds of CPU time of this shell's children that have ended.
read_cpu_s() {
  local -a fields
  read -r -a fields <"/proc/$$/stat"
  cpu_s=$(((fields[15] + fields[16]) / $(getconf CLK_TCK)))
}
