// Package phasestest runs phases on machines of a directory, for tests of packages below phases.
//
// Start at [Run] and [Main]. It knows packages workflow and record only, so that every other package can test itself with
// it.
package phasestest
