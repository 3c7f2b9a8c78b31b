# SPDX-License-Identifier: Apache-2.0
"""Brevis archives in Python, without a mount: tensors as numpy arrays or torch tensors.

    import brevis
    with brevis.open("model.safetensors.brv") as archive:
        archive.keys(), archive.metadata(), archive["layer.0.weight"]     # numpy
        archive.torch("layer.0.weight")                                   # torch, read into its own memory
    weights = brevis.load_file("model.safetensors.brv")                   # {name: array}, as safetensors.numpy has it
    brevis.pack("model.safetensors", "model.safetensors.brv")
    brevis.check("model.safetensors.brv")                                 # raises brevis.Error on damage

A ctypes module over libbrevis.so.0: no build step. numpy is needed for arrays, torch for torch tensors, neither for the
rest. The library is found as the dynamic linker finds it, or where BREVIS_LIBRARY says.

Threads: an archive may be read from many threads at once; decoding does not hold the interpreter's lock.
"""
import ctypes
import os

__all__ = ["Archive", "Error", "Tensor", "check", "is_archive", "load_file", "open", "pack", "safe_open", "version"]


class Error(Exception):
    """A failure told by the library: `kind` says what can be done about it."""

    KINDS = {1: "corrupt", 2: "truncated", 3: "unsupported", 4: "invalid_argument", 5: "not_found", 6: "io", 7: "no_space",
             8: "busy", 9: "permission", 10: "unavailable", 11: "changed", 12: "cancelled", 13: "internal"}

    def __init__(self, status, message, errno=0):
        self.kind, self.errno = self.KINDS.get(status, "internal"), errno
        super().__init__(message or self.kind)


class _Info(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("format_version", ctypes.c_uint32), ("is_safetensors", ctypes.c_int32),
                ("original_bytes", ctypes.c_uint64), ("archive_bytes", ctypes.c_uint64), ("sha256", ctypes.c_char_p),
                ("tensors", ctypes.c_size_t), ("metadata_entries", ctypes.c_size_t)]


class _Tensor(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p),
                ("shape", ctypes.POINTER(ctypes.c_uint64)), ("dimensions", ctypes.c_size_t), ("offset", ctypes.c_uint64),
                ("bytes", ctypes.c_uint64), ("packed_bytes", ctypes.c_uint64), ("duplicate", ctypes.c_int32)]


class _PackOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("force", ctypes.c_int32), ("strict", ctypes.c_int32),
                ("no_sha256", ctypes.c_int32), ("jobs", ctypes.c_uint), ("memory", ctypes.c_uint64)]


class _PackResult(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("files", ctypes.c_uint64), ("bytes_in", ctypes.c_uint64),
                ("bytes_out", ctypes.c_uint64)]


_Finding = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)
_library = None


def _lib():
    global _library
    if _library is None:
        library = ctypes.CDLL(os.environ.get("BREVIS_LIBRARY", "libbrevis.so.0"))
        library.brevis_version.restype = library.brevis_message.restype = ctypes.c_char_p
        pointer, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
        for name, *arguments in (
                ("is_archive", text, pointer), ("open", text, pointer), ("get_info", pointer, pointer),
                ("get_tensor", pointer, size, pointer), ("get_metadata", pointer, size, pointer, pointer),
                ("read", pointer, ctypes.c_uint64, pointer, size, ctypes.c_uint),
                ("pack", text, text, pointer, pointer), ("check", text, _Finding, pointer)):
            function = getattr(library, "brevis_" + name)
            function.argtypes, function.restype = arguments, ctypes.c_int
        library.brevis_close.argtypes, library.brevis_close.restype = [pointer], None
        _library = library
    return _library


def _call(name, *arguments):
    library = _lib()
    status = getattr(library, "brevis_" + name)(*arguments)
    if status:
        raise Error(status, library.brevis_message().decode(errors="replace"), library.brevis_errno())


def _sized(struct):
    filled = struct()
    filled.size = ctypes.sizeof(struct)
    return filled


def version():
    return _lib().brevis_version().decode()


def is_archive(path):
    """By the file's first bytes, whatever its name."""
    answer = ctypes.c_int()
    _call("is_archive", os.fsencode(path), ctypes.byref(answer))
    return bool(answer.value)


# numpy knows no bfloat16 and no 8-bit floats: their raw words stand for them.
_NUMPY = {"BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "F16": "<f2", "BF16": "<u2", "I32": "<i4",
          "U32": "<u4", "F32": "<f4", "C64": "<c8", "F64": "<f8", "I64": "<i8", "U64": "<u8", "F8_E4M3": "u1", "F8_E5M2": "u1",
          "F8_E8M0": "u1", "F8_E4M3FNUZ": "u1", "F8_E5M2FNUZ": "u1"}
_TORCH = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16",
          "I32": "int32", "U32": "uint32", "F32": "float32", "C64": "complex64", "F64": "float64", "I64": "int64",
          "U64": "uint64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
          "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz"}


class Tensor:
    """What an archive says of a tensor: name, dtype (as safetensors spells it), shape, offset and bytes in the file."""

    def __init__(self, raw):
        self.name, self.dtype = raw.name.decode(), raw.dtype.decode()
        self.shape = tuple(raw.shape[i] for i in range(raw.dimensions))
        self.offset, self.bytes, self.packed_bytes, self.duplicate = raw.offset, raw.bytes, raw.packed_bytes, bool(raw.duplicate)

    def __repr__(self):
        return f"<{self.name}: {self.dtype} {list(self.shape)}, {self.bytes} bytes in {self.packed_bytes}>"


class Archive:
    """One archive, open. Also a context manager; closes by itself when it is collected."""

    def __init__(self, path, threads=0):
        self.path, self.threads, self._handle = os.fspath(path), threads, ctypes.c_void_p()
        _call("open", os.fsencode(path), ctypes.byref(self._handle))
        info = _sized(_Info)
        _call("get_info", self._handle, ctypes.byref(info))
        self.format_version, self.size, self.packed_size = info.format_version, info.original_bytes, info.archive_bytes
        self.sha256 = info.sha256 and info.sha256.decode()
        self._tensors = {}
        for i in range(info.tensors):
            raw = _sized(_Tensor)
            _call("get_tensor", self._handle, i, ctypes.byref(raw))
            tensor = Tensor(raw)
            self._tensors[tensor.name] = tensor
        self._metadata = {}
        for i in range(info.metadata_entries):
            key, value = ctypes.c_char_p(), ctypes.c_char_p()
            _call("get_metadata", self._handle, i, ctypes.byref(key), ctypes.byref(value))
            self._metadata[key.value.decode()] = value.value.decode()

    def close(self):
        handle, self._handle = getattr(self, "_handle", None), None
        if handle:
            _lib().brevis_close(handle)

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __len__(self):
        return len(self._tensors)

    def __iter__(self):
        return iter(self._tensors)

    def __contains__(self, name):
        return name in self._tensors

    def __getitem__(self, name):
        return self.numpy(name)

    def keys(self):
        return list(self._tensors)

    def metadata(self):
        return dict(self._metadata)

    def tensor(self, name):
        """The Tensor of that name. KeyError when there is none."""
        return self._tensors[name]

    # Bytes of the original file.

    def _read(self, offset, address, length):
        if not self._handle:
            raise ValueError("the archive is closed")
        _call("read", self._handle, offset, address, length, self.threads)

    def readinto(self, offset, buffer):
        """Fills a writable buffer with the original's bytes from `offset` on."""
        view = memoryview(buffer).cast("B")
        if view.nbytes:
            self._read(offset, ctypes.addressof(ctypes.c_char.from_buffer(view)), view.nbytes)
        return view.nbytes

    def read(self, offset=0, length=None):
        out = bytearray(self.size - offset if length is None else length)
        self.readinto(offset, out)
        return bytes(out)

    # Tensors.

    def _rows(self, tensor, rows):
        """(shape, offset, bytes) of rows [begin, end) of the first dimension, or of all."""
        if rows is None:
            return tensor.shape, tensor.offset, tensor.bytes
        begin, end = rows
        if not tensor.shape or not 0 <= begin <= end <= tensor.shape[0]:
            raise IndexError(f"{tensor.name}: no rows {begin} to {end} in {list(tensor.shape)}")
        row = tensor.bytes // tensor.shape[0] if tensor.shape[0] else 0
        return (end - begin, *tensor.shape[1:]), tensor.offset + begin * row, (end - begin) * row

    def numpy(self, name, rows=None):
        """A new numpy array; BF16 as its raw uint16 words, F8 as uint8. rows=(begin, end) decodes that part alone."""
        import numpy
        tensor = self._tensors[name]
        if tensor.dtype not in _NUMPY:
            raise Error(3, f"{name}: numpy has nothing for dtype {tensor.dtype}; use read()")
        shape, offset, size = self._rows(tensor, rows)
        array = numpy.empty(shape, numpy.dtype(_NUMPY[tensor.dtype]))
        if size:
            self._read(offset, array.ctypes.data, size)
        return array

    def torch(self, name, rows=None, device=None):
        """A new torch tensor, decoded straight into its memory (then copied, where `device` is not the CPU)."""
        import torch
        tensor = self._tensors[name]
        dtype = getattr(torch, _TORCH.get(tensor.dtype, ""), None)
        if dtype is None:
            raise Error(3, f"{name}: this torch has nothing for dtype {tensor.dtype}; use read()")
        shape, offset, size = self._rows(tensor, rows)
        out = torch.empty(shape, dtype=dtype)
        if size:
            self._read(offset, out.data_ptr(), size)
        return out if device is None else out.to(device)


def open(path, threads=0):
    """An Archive. threads: for large reads, 0 for all cores."""
    return Archive(path, threads)


def load_file(path, framework="np", device=None):
    """{name: array} of all tensors; framework "np" or "pt"."""
    with Archive(path) as archive:
        if framework == "pt":
            return {name: archive.torch(name, device=device) for name in archive}
        return {name: archive.numpy(name) for name in archive}


class safe_open:
    """What safetensors.safe_open is for safetensors files, for archives: keys, metadata, get_tensor, get_slice."""

    class _Slice:
        def __init__(self, owner, name):
            self._owner, self._tensor = owner, owner._archive.tensor(name)

        def get_shape(self):
            return list(self._tensor.shape)

        def get_dtype(self):
            return self._tensor.dtype

        def __getitem__(self, key):
            keys = key if isinstance(key, tuple) else (key,)
            first, shape = keys[0] if keys else Ellipsis, self._tensor.shape
            if isinstance(first, slice) and shape and first.step in (None, 1):  # only these rows are decoded
                begin, end, _ = first.indices(shape[0])
                part = self._owner._get(self._tensor.name, (begin, max(begin, end)))
                return part[(slice(None), *keys[1:])]
            return self._owner._get(self._tensor.name, None)[key]

    def __init__(self, filename, framework="np", device=None):
        if framework not in ("np", "numpy", "pt", "torch", "pytorch"):
            raise ValueError(f"framework {framework!r}: np or pt")
        self._archive, self._torch = Archive(filename), framework not in ("np", "numpy")
        self._device = None if device in (None, "cpu") else device

    def _get(self, name, rows):
        if self._torch:
            return self._archive.torch(name, rows, self._device)
        return self._archive.numpy(name, rows)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._archive.close()

    def keys(self):
        return sorted(self._archive.keys())

    def offset_keys(self):
        return self._archive.keys()

    def metadata(self):
        return self._archive.metadata() or None

    def get_tensor(self, name):
        return self._get(name, None)

    def get_slice(self, name):
        return self._Slice(self, name)


def pack(source, target=None, force=False, strict=False, sha256=True, jobs=0, memory=0):
    """A file or a tree into archives, as brevis-pack does. Gives (files, bytes in, bytes out)."""
    options, result = _sized(_PackOptions), _sized(_PackResult)
    options.force, options.strict, options.no_sha256 = force, strict, not sha256
    options.jobs, options.memory = jobs, memory
    _call("pack", os.fsencode(source), None if target is None else os.fsencode(target), ctypes.byref(options),
          ctypes.byref(result))
    return result.files, result.bytes_in, result.bytes_out


def check(path):
    """Every checksum and digest. A list of (severity, file, tensor, message) below damage; damage raises Error, whose
    `findings` are all."""
    found = []

    def note(_, severity, *texts):
        found.append((("note", "warning", "damage", "unread")[severity], *(t.decode(errors="replace") for t in texts)))

    try:
        _call("check", os.fsencode(path), _Finding(note), None)
    except Error as e:
        e.findings = found
        raise
    return found
