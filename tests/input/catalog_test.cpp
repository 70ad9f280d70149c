#include "sim/input/catalog.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "sim/input/profile_json.hpp"
#include "tests/input/example_profile.hpp"

using namespace foretrain;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / ("foretrain_catalog_" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
};

}  // namespace

TEST_CASE("names resolve to shipped files, paths beside the file that names them") {
  const Folder folder;
  folder.write("a/models/resnet50.yaml", "# ResNet-50, 224x224\nname: resnet50\n");
  folder.write("a/models/vgg16.yaml", "name: vgg16\n");
  folder.write("a/models/.hidden.yaml", "");
  folder.write("b/models/resnet50.yaml", "# another\n");
  folder.write("a/profiles/h100.json.gz", "");
  folder.write("job/scenario.yaml", "");
  folder.write("job/mine.yaml", "");
  const Catalog catalog({folder.path / "a", folder.path / "b", folder.path / "absent"});

  CHECK(catalog.names(DataKind::model) == std::vector<std::string>{"resnet50", "vgg16"});
  CHECK(catalog.list(DataKind::model)[0].title == "ResNet-50, 224x224");
  CHECK(catalog.list(DataKind::model)[0].path == folder.path / "a/models/resnet50.yaml");
  CHECK(catalog.names(DataKind::profile) == std::vector<std::string>{"h100"});
  CHECK(catalog.names(DataKind::scenario).empty());
  CHECK_FALSE(catalog.find(DataKind::model, "../models/vgg16"));

  Diagnostics diagnostics;
  const SourceLocation where{(folder.path / "job/scenario.yaml").string(), 1, 8};
  CHECK(catalog.resolve(DataKind::model, "vgg16", where, diagnostics) == folder.path / "a/models/vgg16.yaml");
  CHECK(catalog.resolve(DataKind::profile, "h100", where, diagnostics) ==
        folder.path / "a/profiles/h100.json.gz");
  CHECK(catalog.resolve(DataKind::model, "mine.yaml", where, diagnostics) == folder.path / "job/mine.yaml");
  CHECK(diagnostics.ok());

  CHECK_FALSE(catalog.resolve(DataKind::model, "resnet5", where, diagnostics));
  CHECK_FALSE(catalog.resolve(DataKind::scenario, "resnet5", where, diagnostics));
  CHECK_FALSE(catalog.resolve(DataKind::model, "./absent.yaml", where, diagnostics));
  REQUIRE(diagnostics.error_count() == 3);
  CHECK(diagnostics.errors()[0].text() == where.file +
                                              ":1:8: unknown model 'resnet5' (what ships: resnet50, vgg16; "
                                              "or a file, as in './resnet5.yaml'), did "
                                              "you mean 'resnet50'?");
  CHECK(diagnostics.errors()[2].what.find("absent.yaml' is not there") != std::string::npos);
}

TEST_CASE("a profile's title is what was measured") {
  const Folder folder;
  fs::create_directories(folder.path / "profiles");
  write_profile(example_profile(), folder.path / "profiles/h100.json.gz");
  folder.write("profiles/broken.json", "{");
  const auto all = Catalog({folder.path}).list(DataKind::profile);
  REQUIRE(all.size() == 2);
  CHECK(all[0].title == "cannot be read: see 'foretrain check'");
  CHECK(all[1].title == "NVIDIA H100: resnet50 in bf16; collectives");
}

TEST_CASE("a text with a slash or an ending is a path") {
  CHECK(looks_like_path("a/b"));
  CHECK(looks_like_path("x.json"));
  CHECK(looks_like_path("x.json.gz"));
  CHECK_FALSE(looks_like_path("wrn-16-4"));
  CHECK(data_name("profiles/h200.json.gz") == "h200");
  CHECK(data_name("models/wrn-16-4.yaml") == "wrn-16-4");
}
