package lbtest

import "github.com/ccmadm/ccmadm/doctor/runlease"

// beat is the time between two renewals of a Lease.
const beat = runlease.Lasts / 5
