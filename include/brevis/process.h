// SPDX-License-Identifier: Apache-2.0
//
// What a program does before anything else.
//
// Errors:  none are told.
// Threads: before any is started.
#pragma once

namespace brevis {

// Takes the places of standard streams that our caller closed. Otherwise the next file opened gets the number of one,
// and a message to stderr is written into an archive. Use of such a stream fails, as it would have.
void hold_standard_streams();

}  // namespace brevis
