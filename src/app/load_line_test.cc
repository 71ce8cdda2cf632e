// Goal: what is printed for another machine does there what was asked for here.

#include "app/load_line.h"

#include <gtest/gtest.h>

namespace salvage::app {
namespace {

TEST(LoadLine, defaults_are_not_repeated) {
  EXPECT_EQ(load_line({.path = "/models/tiny.gguf"}, "tiny"), "salvage load tiny");
}

TEST(LoadLine, every_option_comes_along) {
  admin::LoadRequest request;
  request.split = {6, 6, 4};
  request.pins = {"pi-3=4:8", "attic=2"};
  request.context = 512;
  request.sequences = 2;
  request.threads = 3;
  request.chunk = 64;
  request.cache_type_k = "f16";
  request.cache_type_v = "f16";
  request.hidden = "q8";
  request.exact = true;
  request.wait = false;
  EXPECT_EQ(load_line(request, "tiny"),
            "salvage load tiny --split 6,6,4 --pin pi-3=4:8 --pin attic=2 --ctx 512 --parallel 2 "
            "--threads 3 --chunk 64 --cache-type-k f16 --cache-type-v f16 --hidden q8 --exact "
            "--no-wait");
}

TEST(LoadLine, a_name_survives_the_shell) {
  EXPECT_EQ(load_line({}, "Llama 3 (8B)"), "salvage load 'Llama 3 (8B)'");
  EXPECT_EQ(load_line({}, "it's; rm -rf ~"), "salvage load 'it'\\''s; rm -rf ~'");
  EXPECT_EQ(load_line({}, "模型-1.5b"), "salvage load 模型-1.5b");
  EXPECT_EQ(load_line({}, "-x"), "salvage load -- -x");
}

}  // namespace
}  // namespace salvage::app
