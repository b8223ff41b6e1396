// Hints, and files' stripes: requested, granted, read back, and used for alignment.
#include <array>
#include <map>
#include <set>

#include "base/cpus.hpp"
#include "base/machine.hpp"
#include "base/mounts.hpp"
#include "collective/world.hpp"
#include "runtime/profile.hpp"
#include "support/striped_storage.hpp"

namespace ferry::collective {
namespace {

using namespace test;

std::map<std::string, std::string> effective(const File& file) {
  MPI_Info info = file.hints();
  std::map<std::string, std::string> hints;
  for (const char* name :
       {"cb_nodes", "cb_buffer_size", "striping_unit", "romio_cb_write", "romio_cb_read",
        "ferry_method", "ferry_write_out", "ferry_node_merge", "striping_factor"}) {
    char value[100] = {};
    int found = 0;
    MPI_Info_get(info, name, 99, value, &found);
    if (found != 0) hints[name] = value;
  }
  MPI_Info_free(&info);
  return hints;
}

TEST(Hints, AreTakenAndReadBack) {
  const SharedDirectory directory;
  const test::Hints hints{{"cb_nodes", "2"},
                          {"cb_buffer_size", "1048576"},
                          {"striping_unit", "65536"},
                          {"romio_cb_write", "enable"},
                          {"romio_cb_read", "disable"},
                          {"cb_config_list", "*:1"},
                          {"ferry_write_out", "automatic"},
                          {"ferry_node_merge", "disable"}};
  Options options;
  options.hints = hints;
  options.warn = [](const std::string&) { ADD_FAILURE() << "nothing is wrong"; };
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options);
  EXPECT_EQ(effective(file),
            (std::map<std::string, std::string>{{"cb_nodes", std::to_string(std::min(2, ranks()))},
                                                {"cb_buffer_size", "1048576"},
                                                {"striping_unit", "65536"},
                                                {"romio_cb_write", "enable"},
                                                {"romio_cb_read", "disable"},
                                                {"ferry_write_out", "automatic"},
                                                {"ferry_node_merge", "disable"}}));
  file.write_at_all(rank() * 10, bytes_of(pattern(10, 1)));
  EXPECT_EQ(file.statistics().method, Method::aggregate);
  std::string got(10, '\0');
  file.read_at_all(rank() * 10, bytes_of(got));
  EXPECT_EQ(file.statistics().method, Method::independent);
  file.close();
}

TEST(Hints, DefaultsCountWhereTheInfoHasNone) {
  const SharedDirectory directory;
  const test::Hints hints{{"cb_buffer_size", "65536"}, {"romio_cb_read", "disable"}};
  Options options;
  options.hints = hints;
  if (rank() == 0) {
    options.default_hints = {{"cb_nodes", "1"},
                             {"cb_buffer_size", "much"},  // nobody looks at it
                             {"ferry_method", "serial"},
                             {"ferry_node_merge", "perhaps"},
                             {std::string(1000, 'x'), "1"}};
  }
  options.warn = [](const std::string&) {};
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options);
  auto in_force = effective(file);
  EXPECT_EQ(in_force["cb_nodes"], "1");
  EXPECT_EQ(in_force["cb_buffer_size"], "65536");
  EXPECT_EQ(in_force["romio_cb_read"], "disable");
  EXPECT_EQ(in_force["ferry_node_merge"], "enable");
  EXPECT_EQ(file.warnings().size(), 2U);
  file.write_at_all(rank() * 10, bytes_of(pattern(10, 1)));
  EXPECT_EQ(file.statistics().method, Method::serial);
  file.close();
}

TEST(Hints, UnknownAndSenselessOnesAreWarnedAboutOnce) {
  const SharedDirectory directory;
  const test::Hints hints{{"cb_nods", "2"}, {"cb_buffer_size", "much"}, {"ferry_method", "mpiio2"}};
  int warned = 0;
  Options options;
  options.hints = hints;
  options.warn = [&](const std::string&) { ++warned; };
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options);
  EXPECT_EQ(warned, rank() == 0 ? 3 : 0);
  ASSERT_EQ(file.warnings().size(), 3U);
  EXPECT_EQ(file.warnings()[0],
            "hint cb_nods is not known; docs/reference/hints.md lists those that are");
  EXPECT_EQ(
      file.warnings()[1],
      "hint cb_buffer_size is ignored: \"much\" is no value for it; docs/reference/hints.md lists "
      "them");
  EXPECT_EQ(effective(file)["cb_buffer_size"], world().is_one_node() ? "4194304" : "16777216");
  file.close();
}

std::shared_ptr<StripedStorage> striped_storage(std::uint64_t stripe_bytes,
                                                std::uint32_t stripe_count) {
  storage::Layout layout;
  layout.stripe_bytes = stripe_bytes;
  layout.stripe_count = stripe_count;
  return std::make_shared<StripedStorage>(layout);
}

Stripes stripes_of(const File& file) {
  Stripes stripes = file.stripes();
  // All ranks have the same warnings as one.
  std::array<std::int64_t, 4> values{stripes.stripe_bytes, -stripes.stripe_bytes,
                                     stripes.stripe_count, -stripes.stripe_count};
  const auto own = values;
  world().maximum(values);
  EXPECT_EQ(values, own);
  return stripes;
}

struct StripesCase {
  const char* name;
  std::uint64_t storage_bytes;  // what the storage gives without a request
  std::uint32_t storage_count;
  Options options;
  std::int64_t bytes;
  int count;
  const char* reason;
};

TEST(Stripes, AreAskedForAndReadBackAsGranted) {
  const SharedDirectory directory;
  const test::Hints hints{{"striping_unit", "200000"},  // not a multiple of 64 KiB
                          {"striping_factor", "3"},
                          {"cb_buffer_size", "65536"}};
  Options by_hints;
  by_hints.hints = hints;
  const Options automatic = test::options_of(Method::automatic, 2, 1 << 20);
  Options independent = automatic;
  independent.write_method = Method::independent;
  Options odd;
  odd.alignment_bytes = 1000;  // less than CephFS has
  odd.stripe_count = 2;
  const char* const found = "those that the file has, or gets in its directory";
  const StripesCase cases[] = {{"by hints", 4 << 20, 1, by_hints, 196'608, 3, "asked for"},
                               {"automatic", 64 << 10, 1, automatic, 1 << 20, std::min(2, ranks()),
                                "a stripe for each window of a writer, a server for each writer"},
                               {"another method leaves the choice to the storage", 64 << 10, 1,
                                independent, 64 << 10, 1, found},
                               {"no stripes", 0, 0, odd, 0, 0, "the storage tells no stripes"},
                               {"no such stripes", 64 << 10, 1, odd, 64 << 10, 1, found}};
  for (const StripesCase& one : cases) {
    SCOPED_TRACE(one.name);
    File file(MPI_COMM_WORLD, directory / one.name, O_CREAT | O_RDWR, one.options,
              striped_storage(one.storage_bytes, one.storage_count));
    EXPECT_EQ(stripes_of(file).stripe_bytes, one.bytes);
    EXPECT_EQ(stripes_of(file).stripe_count, one.count);
    EXPECT_EQ(file.stripes().reason, one.reason);
    EXPECT_EQ(file.statistics().stripes.reason, one.reason);
    auto in_force = effective(file);
    EXPECT_EQ(in_force["striping_unit"], one.bytes > 0 ? std::to_string(one.bytes) : "1000")
        << "domains are aligned to it";
    EXPECT_EQ(in_force["striping_factor"], one.count > 0 ? std::to_string(one.count) : "");
    file.close();
  }
}

TEST(Stripes, OfAFileThatIsThereStay) {
  const SharedDirectory directory;
  const auto storage = striped_storage(128 << 10, 5);
  Options options;
  options.alignment_bytes = 1 << 20;
  const std::string path = directory / "file";
  if (rank() == 0) write_file(path, "there");
  barrier();
  File file(MPI_COMM_WORLD, path, O_CREAT | O_RDWR, options, storage);
  EXPECT_EQ(stripes_of(file).stripe_bytes, 128 << 10);
  EXPECT_EQ(stripes_of(file).stripe_count, 5);
  EXPECT_EQ(effective(file)["striping_unit"], "131072");
  EXPECT_EQ(file.size_bytes(), 5) << "and so does what is in it";
  file.close();
  EXPECT_EQ(error_of([&] {
              File again(MPI_COMM_WORLD, path, O_CREAT | O_EXCL | O_RDWR, options, storage);
            }),
            EEXIST);
}

TEST(Stripes, RequestsOfDifferentWritersNeverMeetInOne) {
  const SharedDirectory directory;
  constexpr std::int64_t stripe = 64 << 10;
  Options options;
  options.write_method = Method::aggregate;
  options.writers = ranks();
  options.buffer_bytes = 3 * stripe;
  options.alignment_bytes = stripe;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options,
            striped_storage(4 << 20, 1));
  const std::string mine = pattern(4 * stripe + 100, static_cast<std::uint64_t>(rank()));
  const auto bytes = static_cast<std::int64_t>(mine.size());
  file.write_at_all(rank() * bytes, bytes_of(mine));
  const Statistics statistics = file.statistics();
  // Domains of whole stripes, written in windows of three.
  const std::int64_t stripes = (ranks() * bytes + stripe - 1) / stripe;
  const std::int64_t domain = (stripes + ranks() - 1) / ranks();
  std::uint64_t requests = 0;
  for (std::int64_t left = stripes; left > 0; left -= domain)
    requests += static_cast<std::uint64_t>((std::min(left, domain) + 2) / 3);
  EXPECT_EQ(statistics.counts.storage_requests, requests);
  file.close();
}

// A temporary profile for this machine and the storage of a folder.
class OwnProfile {
 public:
  OwnProfile(const SharedDirectory& directory, const std::string& collective) {
    const StorageName name = storage_name(mount_of(directory / ""));
    std::string text = "schema = \"ferry.profile/1\"\n[machine]\ncpu_model = '" + cpu_model() +
                       "'\ncpus_usable = " + std::to_string(usable_cpus()) +
                       "\n[[storages]]\ndevice = \"cpu\"\nmeasured = \"today\"\nfile_system = \"" +
                       name.file_system + "\"\n";
    if (!name.block_device.empty()) text += "block_device = \"" + name.block_device + "\"\n";
    text += "mount_point = \"" + name.mount_point + "\"\n[storages.collective]\n" + collective;
    const std::string path = directory / "profile.toml";
    if (rank() == 0) write_file(path, text);
    barrier();
    setenv("FERRY_PROFILE", path.c_str(), 1);
  }
  ~OwnProfile() { setenv("FERRY_PROFILE", "", 1); }
  OwnProfile(const OwnProfile&) = delete;
  OwnProfile& operator=(const OwnProfile&) = delete;
};

TEST(Automatic, TakesWritersAndBufferFromTheProfile) {
  const SharedDirectory directory;
  const std::set<int> nodes(world().node_of().begin(), world().node_of().end());
  const OwnProfile profile(directory, "writers_per_node = 1\nbuffer_bytes = 1048576\n");
  {
    File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR);
    EXPECT_EQ(file.writers().size(), nodes.size());
    const Statistics statistics = file.statistics();
    EXPECT_EQ(statistics.writers_reason, "1 for each node, by the profile");
    EXPECT_EQ(statistics.buffer_bytes, 1 << 20);
    EXPECT_EQ(statistics.buffer_reason, "by the profile");
    const std::string json = to_json(statistics);
    EXPECT_NE(json.find("\"writers_reason\":\"1 for each node, by the profile\""),
              std::string::npos);
    file.close();
  }
  Options options;
  options.writers = ranks();
  options.buffer_bytes = 65536;
  File file(MPI_COMM_WORLD, directory / "file", O_RDWR, options);
  EXPECT_EQ(static_cast<int>(file.writers().size()), ranks()) << "options go before it";
  EXPECT_EQ(file.statistics().writers_reason, "asked for");
  EXPECT_EQ(file.statistics().buffer_reason, "asked for");
  file.close();
}

// Making a runtime reports what is wrong with it.
TEST(Automatic, GoesByItsRuleWhereTheProfileIsBroken) {
  const SharedDirectory directory;
  const OwnProfile profile(directory, "writers_per_node = 0\n");
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR);
  const Statistics statistics = file.statistics();
  EXPECT_EQ(statistics.writers_reason, "one for every eight ranks of a node, at least two");
  EXPECT_EQ(statistics.buffer_bytes, world().is_one_node() ? 4 << 20 : 16 << 20);
  file.close();
}

}  // namespace
}  // namespace ferry::collective
