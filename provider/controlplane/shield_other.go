//go:build !linux

package controlplane

import "errors"

var errNoLinux = errors.New("look for the table of nftables: only a machine with Linux has it")

// Shielded fails.
func Shielded() (bool, error) { return false, errNoLinux }

// Unshield fails.
func Unshield() error { return errNoLinux }
