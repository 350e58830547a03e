package quorum

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// Datagram is what members say to each other, ten times a second and whenever something changes.
type Datagram struct {
	// From and To are names of Nodes.
	From, To string
	// Stamp is the sender's incarnation and its clock. It grows with each datagram.
	Stamp stamp
	// Echo is the last stamp that the sender saw of the receiver.
	Echo stamp
	// Acknowledged is that of the last datagram that it has taken.
	Acknowledged uint64
	// Applied is the number of the receiver's last operation that the sender has applied.
	Applied uint32
	// First is the number of the first of the Operations, and Last that of the last that there is.
	First, Last uint32
	// Revoked is the number of the last operation that took a grant back: until it was applied, no acknowledgement counts.
	Revoked    uint32
	Operations []operation
	// Draining says that the sender gives away what it owns.
	Draining bool
	// Lists are those of members that bind the sender, the newest at the end. Lacks is one that it does not know.
	Lists []ListID
	Lacks ListID
	// List are names of ListOf, a list that the receiver lacks: those from Offset on of Total. Before versionParts it is the whole list.
	List          []string
	ListOf        ListID
	Offset, Total uint16
	// Version is that of the format, see versionNow.
	Version byte
}

// stamp tells an incarnation of a member, and one datagram of it.
type stamp struct{ Incarnation, Stamp uint64 }

// operation changes what the other side knows of an address.
type operation struct {
	kind    opKind
	address netip.Addr
	// number is that of the request, in a grant and in what revokes it.
	number uint32
}

type opKind byte

const (
	opRequest opKind = iota + 1 // the sender requests the address
	opDrop                      // it withdraws the request, and does not own the address
	opOwn                       // it owns the address that it requested
	opGrant                     // the sender grants the receiver's request
	opRevoke                    // it granted the address to another member, since it did not receive heartbeats
	// The kinds behind it are words, see opWord.
)

// magic begins each datagram. A byte with the version of what follows comes behind it.
const magic = "ccmadm\x00"

// Agents that know older versions are heard, and spoken to, as long as a rollout takes. versionRevoked has Revoked: before it
// any operation may be one that takes a grant back. versionParts has a list of members in parts: before it a long list
// makes a datagram of more than [maxSent] bytes. versionWords has words: before it each member hears all others, and chooses for itself.
const versionBefore, versionRevoked, versionParts, versionWords, versionNow = 1, 2, 3, 4, 4

// MaxDatagram is that of UDP over IPv4.
const MaxDatagram = 65507

// errForged is what is wrong with datagrams of other clusters and of nobody.
var errForged = errors.New("the signature is wrong")

// Encode signs a datagram with the cluster's key, by HMAC-SHA256 (RFC 2104).
func (d *Datagram) Encode(key []byte) []byte {
	b := append(append(make([]byte, 0, 512), magic...), d.Version)
	b = appendString(appendString(b, d.From), d.To)
	for _, n := range []uint64{d.Stamp.Incarnation, d.Stamp.Stamp, d.Echo.Incarnation, d.Echo.Stamp, d.Acknowledged, uint64(d.Lacks)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	for _, n := range []uint32{d.Applied, d.First, d.Last} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	if d.Version >= versionRevoked {
		b = binary.BigEndian.AppendUint32(b, d.Revoked)
	}
	flags := byte(0)
	if d.Draining {
		flags = 1
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(len(d.Lists)))
	for _, id := range d.Lists {
		b = binary.BigEndian.AppendUint64(b, uint64(id))
	}
	if d.Version >= versionParts {
		b = binary.BigEndian.AppendUint64(b, uint64(d.ListOf))
		b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, d.Offset), d.Total)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(d.List)))
	for _, name := range d.List {
		b = appendString(b, name)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(d.Operations)))
	for _, op := range d.Operations {
		address := op.address.AsSlice()
		b = append(b, byte(op.kind), byte(len(address)))
		b = append(b, address...)
		b = binary.BigEndian.AppendUint32(b, op.number)
	}
	return append(b, sign(key, b)...)
}

func sign(key, data []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(data)
	return mac.Sum(nil)
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// Decode checks the signature before it reads anything.
func Decode(key, data []byte) (*Datagram, error) {
	body := len(data) - sha256.Size
	if body <= len(magic) || !hmac.Equal(data[body:], sign(key, data[:body])) {
		return nil, fmt.Errorf("read datagram: %w", errForged)
	}
	version := data[len(magic)]
	if !bytes.HasPrefix(data, []byte(magic)) || version < versionBefore || version > versionNow {
		return nil, errors.New("read datagram: unknown version")
	}
	r := reader{rest: data[len(magic)+1 : body]}
	d := r.datagram(version)
	if r.short || len(r.rest) > 0 {
		return nil, errors.New("read datagram: wrong length")
	}
	return d, nil
}

// reader takes a datagram apart. What is missing reads as nothing, and is remembered.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) datagram(version byte) *Datagram {
	d := &Datagram{Version: version, From: r.text(), To: r.text()}
	d.Stamp = stamp{r.uint64(), r.uint64()}
	d.Echo = stamp{r.uint64(), r.uint64()}
	d.Acknowledged, d.Lacks = r.uint64(), ListID(r.uint64())
	d.Applied, d.First, d.Last = r.uint32(), r.uint32(), r.uint32()
	if d.Revoked = d.Last; version >= versionRevoked {
		d.Revoked = r.uint32()
	}
	d.Draining = r.byte() == 1
	for range r.count() {
		d.Lists = append(d.Lists, ListID(r.uint64()))
	}
	if version >= versionParts {
		d.ListOf, d.Offset, d.Total = ListID(r.uint64()), r.uint16(), r.uint16()
	}
	for range r.count() {
		d.List = append(d.List, r.text())
	}
	for range r.count() {
		op := operation{kind: opKind(r.byte())}
		address, ok := netip.AddrFromSlice(r.take(int(r.byte())))
		op.address, op.number = address, r.uint32()
		r.short = r.short || !ok || op.kind < opRequest || op.kind > lastKind(version)
		d.Operations = append(d.Operations, op)
	}
	return d
}

func lastKind(version byte) opKind {
	if version < versionWords {
		return opRevoke
	}
	return opWord(wordTaken)
}

func (r *reader) take(n int) []byte {
	if n > len(r.rest) {
		r.short, r.rest = true, nil
		return make([]byte, n)
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// count is that of what follows: of nothing, once something was missing.
func (r *reader) count() int {
	n := int(binary.BigEndian.Uint16(r.take(2)))
	if n > len(r.rest) {
		r.short = true
		return 0
	}
	return n
}

func (r *reader) byte() byte     { return r.take(1)[0] }
func (r *reader) uint16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) uint32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) uint64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }
func (r *reader) text() string   { return string(r.take(int(binary.BigEndian.Uint16(r.take(2))))) }
