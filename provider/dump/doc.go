// Package dump reads lists of the kernel, by netlink, that change while they are read.
//
// Start at [Whole]. Reads: what it is given to call. Writes: nothing.
package dump
