/* SPDX-License-Identifier: Apache-2.0
 *
 * Brevis for C, and for all that can call C: archives opened and read, tensors into the caller's memory, files packed
 * and checked. No mount is needed. Link with -lbrevis (pkg-config brevis).
 *
 * Errors:  functions give 0 or a BREVIS_E number; brevis_message() has the text of the calling thread's last failure.
 * Threads: an opened archive may be read from many threads at once; closing it is for one, when all are done.
 * Owns:    what brevis_open() gives is closed by the caller. Strings inside structs live as long as their archive.
 * ABI:     grows, never changes, while the library's name is libbrevis.so.0. Structs that the library fills begin with
 *          `size`: set it to sizeof the struct, and a later library fills no more than the caller knows.
 */
#ifndef BREVIS_C_H
#define BREVIS_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BREVIS_API __attribute__((visibility("default")))

/* What a caller can do about a failure. Numbers are never reused. */
enum brevis_status {
  BREVIS_OK = 0,
  BREVIS_E_CORRUPT = 1,     /* bytes that break a rule of their format */
  BREVIS_E_TRUNCATED = 2,   /* a file ends before its own header says */
  BREVIS_E_UNSUPPORTED = 3, /* a version or feature this library does not know */
  BREVIS_E_ARGUMENT = 4,    /* the request makes no sense as put */
  BREVIS_E_NOT_FOUND = 5,   /* no such file or tensor, or no archive */
  BREVIS_E_IO = 6,          /* the operating system failed a call: brevis_errno() */
  BREVIS_E_NO_SPACE = 7,
  BREVIS_E_BUSY = 8,
  BREVIS_E_PERMISSION = 9,
  BREVIS_E_UNAVAILABLE = 10,
  BREVIS_E_CHANGED = 11, /* the input changed while it was read */
  BREVIS_E_CANCELLED = 12,
  BREVIS_E_INTERNAL = 13
};

BREVIS_API const char* brevis_version(void); /* "0.1.0" */
/* Of the calling thread's last failed call: never null; the text is valid until its next call. */
BREVIS_API const char* brevis_message(void);
BREVIS_API int brevis_errno(void); /* 0 when the failure did not come from the operating system */

typedef struct brevis_archive brevis_archive;

/* *is_archive becomes 1 or 0 by the file's first bytes, whatever its name. */
BREVIS_API int brevis_is_archive(const char* path, int* is_archive);

BREVIS_API int brevis_open(const char* path, brevis_archive** archive);
BREVIS_API void brevis_close(brevis_archive* archive); /* null is fine */

typedef struct brevis_info {
  size_t size; /* sizeof(brevis_info) */
  uint32_t format_version;
  int32_t is_safetensors; /* valid or lenient: it has tensors to name */
  uint64_t original_bytes, archive_bytes;
  const char* sha256; /* of the original, in hex; null when the archive has none */
  size_t tensors, metadata_entries;
} brevis_info;
BREVIS_API int brevis_get_info(const brevis_archive* archive, brevis_info* info);

typedef struct brevis_tensor {
  size_t size; /* sizeof(brevis_tensor) */
  const char* name;
  const char* dtype; /* as safetensors spells it: "BF16", "F32", ... */
  const uint64_t* shape;
  size_t dimensions;
  uint64_t offset, bytes; /* in the original file */
  uint64_t packed_bytes;  /* its share of the archive; 0 for a copy of another tensor */
  int32_t duplicate;      /* stored once, elsewhere in the archive */
} brevis_tensor;
/* By place, 0 .. tensors - 1, in the order of the original file. */
BREVIS_API int brevis_get_tensor(const brevis_archive* archive, size_t index, brevis_tensor* tensor);
BREVIS_API int brevis_find_tensor(const brevis_archive* archive, const char* name, brevis_tensor* tensor);

/* String entries of the header's __metadata__, in its order. */
BREVIS_API int brevis_get_metadata(const brevis_archive* archive, size_t index, const char** key, const char** value);

/* Exactly `length` bytes of the original from `offset` on, decoded and checked, into `buffer`. On failure the buffer's
   content is undefined. `threads`: 0 for all cores; small reads use one. */
BREVIS_API int brevis_read(const brevis_archive* archive, uint64_t offset, void* buffer, size_t length,
                           unsigned threads);

typedef struct brevis_pack_options {
  size_t size;   /* sizeof(brevis_pack_options); all else may be 0 */
  int32_t force; /* overwrite an existing target */
  int32_t strict;
  int32_t no_sha256;
  unsigned jobs;   /* 0: cores */
  uint64_t memory; /* cap on buffers, 0: the default */
} brevis_pack_options;
typedef struct brevis_pack_result {
  size_t size; /* sizeof(brevis_pack_result) */
  uint64_t files, bytes_in, bytes_out;
} brevis_pack_result;
/* A file or a tree into archives, as brevis-pack does. target null: archives go beside their sources. Options and
   result may be null. The first file that fails is what is told. */
BREVIS_API int brevis_pack(const char* source, const char* target, const brevis_pack_options* options,
                           brevis_pack_result* result);

/* Every checksum and digest of an archive or a tree of them. `found`, which may be null, is called for each finding of
   severity 0 note, 1 warning, 2 damage, 3 not readable by this user. Damage makes the call fail with BREVIS_E_CORRUPT,
   else what could not be read with BREVIS_E_PERMISSION. */
typedef void (*brevis_finding)(void* context, int severity, const char* file, const char* tensor, const char* message);
BREVIS_API int brevis_check(const char* path, brevis_finding found, void* context);

#ifdef __cplusplus
}
#endif
#endif
