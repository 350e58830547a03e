package config

import (
	"net"
	"strings"
)

// UUID returns an SMBIOS UUID in lower case with dashes, or "" for what is none
// and for the placeholders that boards are shipped with.
func UUID(s string) string {
	hex := Hex128(s)
	if hex == "" {
		return ""
	}
	return strings.Join([]string{hex[:8], hex[8:12], hex[12:16], hex[16:20], hex[20:]}, "-")
}

// Hex128 returns the 32 hexadecimal digits of a UUID or machine-id, or "" for
// anything else, such as "Not Settable" and "uninitialized", and for placeholders.
func Hex128(s string) string {
	hex := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(s), "-", ""))
	if len(hex) != 32 || strings.Trim(hex, "0123456789abcdef") != "" || worthless(hex) {
		return ""
	}
	return hex
}

// worthless knows the placeholders that boards are shipped with. SMBIOS 3.7,
// section 7.2.1: all zeros means absent, all ones means not set.
func worthless(hex string) bool {
	switch hex {
	case "03000200040005000006000700080009", // AMI, both byte orders
		"00020003000400050006000700080009",
		"07090201010303010807060504030201",
		"000102030405060708090a0b0c0d0e0f",
		"12345678123456789012345678901234",
		"deadbeefdeadbeefdeadbeefdeadbeef":
		return true
	}
	const lastTwelveBytesOnes = "ffffffffffffffffffffffff"
	return hex == strings.Repeat(hex[:2], 16) || strings.HasSuffix(hex, lastTwelveBytesOnes)
}

// isPlaceholder knows the serial numbers that boards are shipped with, which many machines share.
func isPlaceholder(serial string) bool {
	if serial == "" {
		return false
	}
	plain := strings.ToLower(strings.Trim(serial, " ."))
	switch plain {
	case "to be filled by o.e.m", "default string", "system serial number", "serial number", "chassis serial number",
		"none", "n/a", "na", "not specified", "not applicable", "not available", "unknown", "empty", "invalid",
		"o.e.m", "oem",
		"0123456789", "123456789", "1234567890", "x.x":
		return true
	}
	return strings.Trim(plain, plain[:min(1, len(plain))]) == "" // one letter over and over, or nothing
}

// isOneMachines reports whether a MAC address can be that of one network card.
func isOneMachines(mac net.HardwareAddr) bool {
	group := mac[0]&1 == 1 // broadcast, too
	return !group && strings.Trim(mac.String(), "0:") != ""
}
