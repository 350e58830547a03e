// Package kernel reaches what node agents use of a machine's kernel beside routes: the inside of a network namespace,
// and tables of nftables.
//
// Start at [Enter] and [Replace].
//
// Reads and writes: tables of nftables with one of our names, and no others.
// Running it twice: a table is replaced as a whole, in one transaction. What has gone already is no error.
package kernel
