// An in-memory file that stores only written blocks: offsets up to 2^63.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ferry::test {

class SparseFile {
 public:
  static constexpr std::uint64_t block_bytes = 4096;

  std::uint64_t size() const { return size_; }

  void write(std::uint64_t offset, std::string_view data) {
    size_ = std::max(size_, offset + data.size());
    for (std::uint64_t done = 0; done < data.size();) {
      const std::uint64_t within = (offset + done) % block_bytes;
      const std::uint64_t step = std::min(block_bytes - within, data.size() - done);
      Block& block = blocks_[(offset + done) / block_bytes];
      std::copy_n(data.data() + done, step, block.data() + within);
      done += step;
    }
  }
  void resize(std::uint64_t size) {
    if (size < size_) {
      blocks_.erase(blocks_.lower_bound((size + block_bytes - 1) / block_bytes), blocks_.end());
      const auto last = blocks_.find(size / block_bytes);
      if (last != blocks_.end())
        std::fill(last->second.begin() + static_cast<std::ptrdiff_t>(size % block_bytes),
                  last->second.end(), '\0');
    }
    size_ = size;
  }
  // Up to the end of the file.
  std::string read(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset >= size_) return "";
    std::string data(std::min(bytes, size_ - offset), '\0');
    for (std::uint64_t done = 0; done < data.size();) {
      const std::uint64_t within = (offset + done) % block_bytes;
      const std::uint64_t step = std::min(block_bytes - within, data.size() - done);
      const auto found = blocks_.find((offset + done) / block_bytes);
      if (found != blocks_.end())
        std::copy_n(found->second.data() + within, step, data.data() + done);
      done += step;
    }
    return data;
  }
  // `work(offset, bytes of the block)` for every block that was written.
  template <class Work>
  void each_block(Work work) const {
    for (const auto& [index, block] : blocks_) {
      const std::uint64_t offset = index * block_bytes;
      work(offset, std::string_view(block.data(), std::min(block_bytes, size_ - offset)));
    }
  }

 private:
  using Block = std::array<char, block_bytes>;  // value-initialised by the map: zeros
  std::uint64_t size_ = 0;
  std::map<std::uint64_t, Block> blocks_;
};

}  // namespace ferry::test
