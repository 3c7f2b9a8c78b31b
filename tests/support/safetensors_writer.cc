// SPDX-License-Identifier: Apache-2.0
#include "support/safetensors_writer.h"

#include <cstring>

#include "support/weights.h"

namespace brevis::test {
namespace {

std::string quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      ((out += "\\u00") += kHex[c >> 4]) += kHex[c & 15];
    } else {
      out += c;
    }
  }
  return out += '"';
}

}  // namespace

TensorSpec flat_tensor(std::string name, Dtype dtype, ByteVector bytes) {
  const uint64_t count = bytes.size() * 8 / dtype_info(dtype).bits;
  return {std::move(name), dtype, {count}, std::move(bytes)};
}

std::string safetensors_header(const std::vector<TensorSpec>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (header.back() != '{') header += ',';
      header.append(quoted(key)).append(":").append(quoted(value));
    }
    header += '}';
  }
  uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    if (header.size() > 1) header += ',';
    header.append(quoted(tensor.name)).append(":{\"dtype\":\"").append(dtype_info(tensor.dtype).name);
    header += "\",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      header.append(i == 0 ? "" : ",").append(std::to_string(tensor.shape[i]));
    header.append("],\"data_offsets\":[").append(std::to_string(offset)).append(",");
    offset += tensor.bytes.size();
    header.append(std::to_string(offset)).append("]}");
  }
  return header += '}';
}

ByteVector safetensors_raw(std::string_view header, ByteSpan data) {
  const uint64_t length = header.size();
  ByteVector out(8 + header.size() + data.size());
  std::memcpy(out.data(), &length, 8);
  if (!header.empty()) std::memcpy(out.data() + 8, header.data(), header.size());
  if (!data.empty()) std::memcpy(out.data() + 8 + header.size(), data.data(), data.size());
  return out;
}

ByteVector safetensors_bytes(const std::vector<TensorSpec>& tensors, const std::map<std::string, std::string>& metadata,
                             size_t align) {
  std::string header = safetensors_header(tensors, metadata);
  header.resize((header.size() + align - 1) / align * align, ' ');
  ByteVector data;
  for (const auto& tensor : tensors) data.insert(data.end(), tensor.bytes.begin(), tensor.bytes.end());
  return safetensors_raw(header, data);
}

std::vector<TensorSpec> mixed_model(uint64_t seed, size_t scale) {
  const size_t bytes = scale << 10;
  const size_t columns = 64;
  const auto matrix = [&](std::string name, Dtype dtype, uint64_t salt) {
    const size_t rows = bytes / columns / (dtype_info(dtype).bits / 8);
    return TensorSpec{std::move(name), dtype, {rows, columns}, channel_words(dtype, rows, columns, seed + salt)};
  };
  std::vector<TensorSpec> model;
  model.push_back(matrix("model.embed.weight", Dtype::BF16, 1));
  model.push_back(matrix("model.layers.0.attn.weight", Dtype::F16, 2));
  model.push_back(matrix("model.layers.0.mlp.weight", Dtype::F32, 3));
  model.push_back(matrix("model.layers.1.attn.weight", Dtype::F8_E4M3, 4));
  model.push_back(matrix("model.layers.1.mlp.weight", Dtype::I8, 5));
  model.push_back(flat_tensor("model.layers.0.norm.weight", Dtype::BF16, constant_words(16, bytes / 8, 0x3f80)));
  model.push_back(flat_tensor("model.layers.1.upcast.weight", Dtype::F32, upcast_words(bytes / 4, seed + 6)));
  model.push_back(flat_tensor("model.layers.1.palette.weight", Dtype::F16, palette_words(16, bytes / 2, 16, seed + 7)));
  model.push_back(
      flat_tensor("model.layers.1.sparse.weight", Dtype::BF16, zero_heavy_words(Dtype::BF16, bytes / 2, seed + 8)));
  model.push_back(flat_tensor("model.position_ids", Dtype::I64, ramp_words(64, 512, 0, 1)));
  model.push_back(flat_tensor("model.empty", Dtype::F32, {}));
  model.push_back({"model.scale", Dtype::F32, {}, gaussian_words(Dtype::F32, 1, seed + 9)});
  return model;
}

}  // namespace brevis::test
