/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the tensors of an archive and decodes each.
 *
 *   cc list_tensors.c $(pkg-config --cflags --libs brevis) -o list_tensors
 *   ./list_tensors model.safetensors.brv
 */
#include <brevis/c.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, brevis_message());
  return 1;
}

int main(int argc, char** argv) {
  brevis_archive* archive;
  brevis_info info = {.size = sizeof info};
  size_t i;
  if (argc != 2) return 2;
  if (brevis_open(argv[1], &archive)) return failed(argv[1]);
  if (brevis_get_info(archive, &info)) return failed(argv[1]);
  printf("%zu tensors, %llu bytes in %llu\n", info.tensors, (unsigned long long)info.original_bytes,
         (unsigned long long)info.archive_bytes);
  for (i = 0; i < info.tensors; ++i) {
    brevis_tensor tensor = {.size = sizeof tensor};
    unsigned char* data;
    if (brevis_get_tensor(archive, i, &tensor)) return failed(argv[1]);
    data = malloc(tensor.bytes ? tensor.bytes : 1);
    if (!data || brevis_read(archive, tensor.offset, data, tensor.bytes, 0)) return failed(tensor.name);
    printf("%s %s, %zu dimensions, %llu bytes, first %02x\n", tensor.name, tensor.dtype, tensor.dimensions,
           (unsigned long long)tensor.bytes, tensor.bytes ? data[0] : 0);
    free(data);
  }
  brevis_close(archive);
  return 0;
}
