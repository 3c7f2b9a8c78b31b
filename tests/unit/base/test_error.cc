// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cerrno>
#include <set>
#include <string>

#include "brevis/error.h"

using namespace brevis;

namespace {

constexpr Errc kLast = Errc::internal;

Result<int> half(int value) {
  if (value % 2 != 0) return make_error(Errc::invalid_argument, "odd");
  return value / 2;
}

Result<int> quarter(int value) {
  BREVIS_ASSIGN(const int once, half(value));
  BREVIS_ASSIGN(const int twice, half(once));
  return twice;
}

Status check_quarter(int value) {
  BREVIS_TRY(quarter(value));
  return {};
}

}  // namespace

TEST_CASE("every kind has a name, an errno and an exit code") {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(kLast); ++i) {
    const Error error(static_cast<Errc>(i), "x");
    CAPTURE(errc_name(error.kind()));
    CHECK(names.insert(errc_name(error.kind())).second);
    CHECK(to_errno(error) > 0);
    CHECK(to_exit_code(error) >= 2);
    CHECK(to_exit_code(error) <= 77);
  }
}

TEST_CASE("errno picks the kind and its text ends the message") {
  const Error missing = Error::from_errno(ENOENT, "reading '/x/y'");
  CHECK(missing.kind() == Errc::not_found);
  CHECK(missing.message() == "reading '/x/y': No such file or directory");
  CHECK(missing.os_errno() == ENOENT);
  CHECK(Error::from_errno(ENOSPC, "x").kind() == Errc::no_space);
  CHECK(Error::from_errno(EDQUOT, "x").kind() == Errc::no_space);
  CHECK(Error::from_errno(EACCES, "x").kind() == Errc::permission);
  CHECK(Error::from_errno(EPERM, "x").kind() == Errc::permission);
  CHECK(Error::from_errno(EIO, "x").kind() == Errc::io);
}

TEST_CASE("what the kernel and the shell are told") {
  CHECK(to_errno(make_error(Errc::corrupt, "")) == EIO);
  CHECK(to_errno(make_error(Errc::truncated, "")) == EIO);
  CHECK(to_errno(make_error(Errc::changed, "")) == EIO);
  CHECK(to_errno(make_error(Errc::unsupported, "")) == EOPNOTSUPP);
  CHECK(to_errno(Error::from_errno(ENODEV, "")) == ENODEV);
  CHECK(to_errno(make_error(Errc::io, "")) == EIO);
  CHECK(to_errno(Error::from_errno(EPERM, "")) == EPERM);
  CHECK(to_exit_code(make_error(Errc::corrupt, "")) == 65);
  CHECK(to_exit_code(make_error(Errc::not_found, "")) == 66);
  CHECK(to_exit_code(make_error(Errc::unavailable, "")) == 69);
  CHECK(to_exit_code(make_error(Errc::internal, "")) == 70);
  CHECK(to_exit_code(make_error(Errc::no_space, "")) == 74);
  CHECK(to_exit_code(make_error(Errc::no_space, "").creating()) == 73);
  CHECK(to_exit_code(Error::from_errno(ENOSPC, "x").creating().within("y")) == 73);
  CHECK(to_exit_code(make_error(Errc::io, "")) == 74);
  CHECK(to_exit_code(make_error(Errc::changed, "")) == 75);
  CHECK(to_exit_code(make_error(Errc::permission, "")) == 77);
  CHECK(to_exit_code(make_error(Errc::invalid_argument, "")) == 2);
}

TEST_CASE("context goes in front and keeps the rest") {
  const Error outer = Error::from_errno(EIO, "reading 'a'").within("archive 'b'").within("mount");
  CHECK(outer.message() == "mount: archive 'b': reading 'a': Input/output error");
  CHECK(outer.os_errno() == EIO);
  CHECK(outer.kind() == Errc::io);
}

TEST_CASE("results hand values on and leave early with errors") {
  CHECK(quarter(8).value() == 2);
  CHECK(quarter(6).error().message() == "odd");
  CHECK(check_quarter(8).has_value());
  CHECK(check_quarter(7).error().kind() == Errc::invalid_argument);
}
