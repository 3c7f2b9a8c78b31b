// SPDX-License-Identifier: Apache-2.0
//
// What the archives under golden/v1 are made of: parts for each codec, operator and relation. New ones are added, those
// that are there never change.
#pragma once

#include "support/simple_pack.h"

namespace brevis::test {

struct Golden {
  std::string name;
  std::vector<PackPart> parts;
  bool table_sets = false;
  std::string base{};  // of an archive that stands on another: that golden's name
};

std::vector<Golden> goldens();

}  // namespace brevis::test
