// Layouts as a file system's client reports them, and as programs ask for them.
#include <cerrno>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "fuzz/bytes.hpp"
#include "storage/layout.hpp"
#include "storage/lustre/attribute.hpp"

namespace ferry::fuzz {
namespace {

using namespace storage;

constexpr std::uint64_t edges[] = {std::uint64_t{64} << 10, std::uint64_t{1} << 31,
                                   std::uint64_t{1} << 32,  to_the_end,
                                   std::uint64_t{1} << 63,  2000};

void use(const Layout& layout) {
  require(grants(layout, Layout{}), "a layout does not grant what nobody asks for");
  static_cast<void>(lustre_command(layout, "a 'file'"));
  static_cast<void>(lustre_command_note(layout));
  static_cast<void>(ceph_layout_text(layout));
  for (const LayoutPart& part : layout.parts)
    static_cast<void>(as_part(as_layout(part), part.begin_bytes, part.end_bytes));
  for (const auto fit : {fitted_to_ceph, fitted_to_lustre, fitted_to_pvfs2}) {
    try {
      const Layout fitted = fit(layout);
      static_cast<void>(stripes_request(fitted));
      Layout again = fitted;
      again = fit(again);
      require(grants(again, fitted), "a layout that fits does not fit");
    } catch (const std::invalid_argument&) {
    }
  }
}

LayoutPart any_part(InputBytes& input) {
  LayoutPart part;
  part.begin_bytes = input.number(edges);
  part.end_bytes = input.number(edges);
  part.stripe_bytes = input.number(edges);
  part.stripe_count = static_cast<std::uint32_t>(input.number(edges));
  part.first_server = static_cast<std::int32_t>(input.number(edges));
  const auto flags = input.take<std::uint8_t>();
  part.pool = input.text(flags % 20);
  part.overstriping = (flags & 32) != 0;
  part.all_servers = (flags & 64) != 0;
  part.metadata_server = (flags & 128) != 0;
  return part;
}

Layout any_layout(InputBytes& input) {
  const auto flags = input.take<std::uint8_t>();
  Layout layout = as_layout(any_part(input));
  layout.at_most = flags % 2 != 0;
  if (flags % 4 > 1) layout.extras[object_bytes_name] = input.number(edges);
  for (unsigned parts = flags / 4 % 8; parts > 0; --parts)
    layout.parts.push_back(any_part(input));
  return layout;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  InputBytes input(data, bytes);
  const auto choice = input.take<std::uint8_t>();
  if (choice >= 128) {
    use(any_layout(input));
    return 0;
  }
  const std::string attribute = input.rest();
  Layout layout;
  const int error =
      layout_of_attribute(std::as_bytes(std::span(attribute)), choice % 2 != 0, layout);
  require(error == 0 || error == -EIO, "an errno that is not documented");
  require(layout.parts.size() * 16 <= bytes, "more parts than the attribute has bytes for");
  if (error == 0) use(layout);
  return 0;
}

}  // namespace ferry::fuzz
