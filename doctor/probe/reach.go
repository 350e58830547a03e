package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
)

// Unreachable says how a server does not answer.
type Unreachable string

// The ways.
const (
	NameUnknown Unreachable = "NameUnknown"
	// NameUnresolved: the name servers of the machine did not say whether there is such a name.
	NameUnresolved Unreachable = "NameUnresolved"
	Refused        Unreachable = "Refused"
	Dropped        Unreachable = "Dropped"
	NoRoute        Unreachable = "NoRoute"
	// BadCertificate: there is an answer, with a certificate that the cluster's CA has not signed, or of another name or time.
	BadCertificate Unreachable = "BadCertificate"
	// NameServerFails: DNS answers that it cannot answer.
	NameServerFails Unreachable = "NameServerFails"
	OtherProgram    Unreachable = "OtherProgram"
)

// KindOf tells apart what a person repairs in different places.
func KindOf(err error) Unreachable {
	if errors.As(err, new(*net.DNSError)) {
		return NameUnknown
	}
	return kindOfConnection(err)
}

func kindOfConnection(err error) Unreachable {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case slices.ContainsFunc(withoutWay(), func(number syscall.Errno) bool { return errors.Is(err, number) }):
		return NoRoute
	case badCertificate(err):
		return BadCertificate
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return Dropped
	}
	return OtherProgram
}

// withoutWay are what the kernel says of an address that packets cannot be sent to. EACCES is that of a rule for IPv6, and
// EADDRNOTAVAIL that of a machine without an address of the family.
func withoutWay() []syscall.Errno {
	return []syscall.Errno{syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EPERM, syscall.EACCES, syscall.EADDRNOTAVAIL}
}

func badCertificate(err error) bool {
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &invalid) || errors.As(err, &name)
}

// kindOf is KindOf, and tells a name that there is not from one of which the name servers did not say.
func kindOf(err error) Unreachable {
	var dns *net.DNSError
	if errors.As(err, &dns) && !dns.IsNotFound {
		return NameUnresolved
	}
	return KindOf(err)
}

// kindOfDNS is about a name server that was asked itself: its error is no name of the server's that is not known.
func kindOfDNS(err error) Unreachable {
	var dns *net.DNSError
	switch {
	case !errors.As(err, &dns):
		return kindOfConnection(err)
	case dns.IsNotFound:
		return NameUnknown
	case dns.IsTimeout:
		return Dropped
	case strings.Contains(dns.Err, "server misbehaving"):
		return NameServerFails
	case strings.Contains(dns.Err, syscall.ECONNREFUSED.Error()):
		return Refused
	case slices.ContainsFunc(withoutWay(), func(number syscall.Errno) bool { return strings.Contains(dns.Err, number.Error()) }):
		return NoRoute // package net keeps the text alone
	}
	return kindOfConnection(dns.Unwrap())
}
