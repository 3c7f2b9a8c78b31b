// SPDX-License-Identifier: Apache-2.0
#include "brevis/error.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace brevis {

std::string_view errc_name(Errc kind) {
  switch (kind) {
    case Errc::corrupt: return "corrupt";
    case Errc::truncated: return "truncated";
    case Errc::unsupported: return "unsupported";
    case Errc::invalid_argument: return "invalid_argument";
    case Errc::not_found: return "not_found";
    case Errc::io: return "io";
    case Errc::no_space: return "no_space";
    case Errc::busy: return "busy";
    case Errc::permission: return "permission";
    case Errc::unavailable: return "unavailable";
    case Errc::changed: return "changed";
    case Errc::cancelled: return "cancelled";
    case Errc::internal: return "internal";
  }
  return "internal";
}

Error Error::from_errno(int os_errno, std::string_view what) {
  Errc kind = Errc::io;
  switch (os_errno) {
    case ENOENT: kind = Errc::not_found; break;
    case ENOSPC:
    case EDQUOT: kind = Errc::no_space; break;
    case EACCES:
    case EPERM: kind = Errc::permission; break;
    default: break;
  }
  std::array<char, 128> buffer{};
  std::string message(what);
  message += ": ";
  message +=
      ::strerror_r(os_errno, buffer.data(), buffer.size());  // GNU's: gives the text, which need not be in buffer
  return Error(kind, std::move(message), os_errno);
}

Error Error::within(std::string_view context) && {
  message_.insert(0, ": ").insert(0, context);
  return std::move(*this);
}

int to_errno(const Error& error) {
  const auto own_or = [&](int otherwise) { return error.os_errno() != 0 ? error.os_errno() : otherwise; };
  switch (error.kind()) {
    case Errc::corrupt:
    case Errc::truncated:
    case Errc::changed:
    case Errc::internal: return EIO;
    case Errc::unsupported: return EOPNOTSUPP;
    case Errc::invalid_argument: return EINVAL;
    case Errc::not_found: return ENOENT;
    case Errc::io: return own_or(EIO);
    case Errc::no_space: return own_or(ENOSPC);
    case Errc::busy: return EBUSY;
    case Errc::permission: return own_or(EACCES);
    case Errc::unavailable: return ENODEV;
    case Errc::cancelled: return EINTR;
  }
  return EIO;
}

int to_exit_code(const Error& error) {
  switch (error.kind()) {
    case Errc::corrupt:
    case Errc::truncated:
    case Errc::unsupported: return 65;
    case Errc::invalid_argument: return 2;
    case Errc::not_found: return 66;
    case Errc::unavailable: return 69;
    case Errc::internal: return 70;
    case Errc::no_space: return error.is_creating() ? 73 : 74;
    case Errc::io: return 74;
    case Errc::busy:
    case Errc::changed:
    case Errc::cancelled: return 75;
    case Errc::permission: return 77;
  }
  return 70;
}

}  // namespace brevis
