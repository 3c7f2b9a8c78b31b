// SPDX-License-Identifier: Apache-2.0
//
// Packs a file, opens the archive and reads its tensors back, range by range.
//
//   g++ -std=c++20 pack_and_read.cc $(pkg-config --cflags --libs brevis) -o pack_and_read
//   ./pack_and_read model.safetensors model.safetensors.brv
#include <brevis/archive.h>
#include <brevis/pack.h>

#include <iostream>

namespace {

brevis::Status run(const std::string& source, const std::string& target) {
  brevis::PackOptions options;
  options.sources = {source};
  options.target = target;
  BREVIS_ASSIGN(const brevis::PackReport report, brevis::pack_files(options));
  if (const brevis::Error* error = report.first_error()) return brevis::Error(*error);
  std::cout << report.bytes_in << " bytes in " << report.bytes_out << "\n";

  BREVIS_ASSIGN(const auto archive, brevis::Archive::open(target));
  BREVIS_ASSIGN(const auto spans, archive->spans());
  for (const brevis::ArchiveSpan& span : spans) {
    if (span.kind != brevis::SpanKind::tensor) continue;
    brevis::ByteVector data(span.span.length);
    BREVIS_TRY(archive->read(span.span, data));
    std::cout << span.tensor.name << " " << span.tensor.dtype_name << " " << data.size() << " bytes\n";
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (const auto done = run(argv[1], argv[2]); !done) {
    std::cerr << done.error().message() << "\n";
    return brevis::to_exit_code(done.error());
  }
}
