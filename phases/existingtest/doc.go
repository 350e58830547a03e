// Package existingtest makes clusters as `ccmadm init` leaves them, for tests of what changes them later.
//
// Start at [Living] and [ApplyRun].
package existingtest
