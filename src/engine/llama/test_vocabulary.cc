#include "engine/llama/test_vocabulary.h"

#include <fstream>
#include <map>
#include <sstream>

#include <unistd.h>

#include "base/check.h"
#include "engine/llama/llama_text.h"
#include "model/gguf.h"
#include "model/gguf_writer.h"

namespace salvage::engine {

std::filesystem::path vocabulary_file(const std::string& name) {
  return std::filesystem::path(SALVAGE_LLAMA_SOURCE) / "models" / ("ggml-vocab-" + name + ".gguf");
}

std::shared_ptr<const LlamaVocabulary> test_vocabulary(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const LlamaVocabulary>> read;
  auto& vocabulary = read[name];
  if (!vocabulary) {
    auto loaded = LlamaVocabulary::load(vocabulary_file(name));
    CHECK(loaded);
    vocabulary = *loaded;
  }
  return vocabulary;
}

std::string upstream_template(const std::string& name) {
  const auto path =
      std::filesystem::path(SALVAGE_LLAMA_SOURCE) / "models" / "templates" / (name + ".jinja");
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  CHECK(!text.str().empty());
  return text.str();
}

Result<TextTools> tools_with_template(const std::string& vocabulary, const std::string& source) {
  ASSIGN_OR_RETURN(const auto original, model::Gguf::open(vocabulary_file(vocabulary)));
  model::Metadata metadata = original.metadata();
  metadata.set("tokenizer.chat_template", model::Value::string(source));
  // Tests run side by side, each in a process of its own: no two may share a file.
  const auto path = std::filesystem::temp_directory_path() /
                    ("salvage_test_" + std::to_string(::getpid()) + "_template.gguf");
  ASSIGN_OR_RETURN(auto file, AtomicFile::create(path, 0));
  RETURN_IF_ERROR(model::write_gguf(metadata, {}, file, {}));
  RETURN_IF_ERROR(file.commit());
  auto tools = make_llama_text_tools(path);
  std::filesystem::remove(path);
  return tools;
}

std::shared_ptr<const ChatFormat> test_format(const std::string& vocabulary,
                                              const std::string& source) {
  auto tools = tools_with_template(vocabulary, source);
  CHECK(tools);
  auto format = tools->make_chat_format();
  CHECK(format);
  return *format;
}

ChatRequest chat_of(const std::string& messages) {
  ChatRequest request;
  request.messages = nlohmann::ordered_json::parse(messages);
  return request;
}

}  // namespace salvage::engine
