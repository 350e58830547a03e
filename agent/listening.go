package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/klog/v2"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// States of sockets, as the kernel numbers them in /proc/PID/net: a listening one of TCP, and one of UDP without a peer.
const (
	tcpListen = "0A"
	udpOpen   = "07"
)

// reportListening adds the ports on which this machine listens for others. It reads the network of the calling thread,
// which the agent shares with the machine; /proc/net is that of the process's first thread, wherever that has gone. What
// cannot be read is left out, with a line in the log.
func reportListening(status *v1alpha1.NodeAgentStatus) {
	list, err := listening("/proc")
	if err != nil {
		klog.ErrorS(err, "Cannot read all ports on which this Node listens")
	}
	status.Listening = list
}

// maxPorts is how many ports of a block are reported one by one. Those below 1024 are no block: programs of the machine have them.
const maxPorts = 64

// listening reads PROTOCOL/PORT from /proc, in order, with blocks in place of more than [maxPorts] ports of one. A kernel without IPv6 has
// no files for it.
func listening(proc string) ([]string, error) {
	var list []string
	var errs []error
	ephemeral, err := ephemeralPorts(proc)
	if err != nil {
		errs = append(errs, err)
	}
	for _, protocol := range []string{"tcp", "udp"} {
		ports, inBlock := map[uint16]bool{}, map[uint16]int{}
		for _, suffix := range []string{"", "6"} {
			text, err := os.ReadFile(filepath.Join(proc, "thread-self/net", protocol+suffix))
			if err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
				errs = append(errs, err)
			}
			for line := range strings.Lines(string(text)) {
				port, open := openPort(protocol, line)
				if !open || protocol == "udp" && ephemeral[0] <= port && port <= ephemeral[1] {
					continue // a question under way, for the name of some host, leaves such a socket of UDP
				}
				if !ports[port] {
					ports[port] = true
					inBlock[port/v1alpha1.PortBlock]++
				}
			}
		}
		for port := range ports {
			text := strconv.Itoa(int(port))
			if port >= v1alpha1.PortBlock && inBlock[port/v1alpha1.PortBlock] > maxPorts {
				text = v1alpha1.PortBlockOf(int(port))
			}
			list = append(list, protocol+"/"+text)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), errors.Join(errs...)
}

// openPort reads a line: that of a socket which takes packets from other machines, or any other.
func openPort(protocol, line string) (uint16, bool) {
	fields := strings.Fields(line) // number, local address, remote address, state
	if len(fields) < 4 || fields[3] != map[string]string{"tcp": tcpListen, "udp": udpOpen}[protocol] {
		return 0, false
	}
	address, number, _ := strings.Cut(fields[1], ":")
	port, err := strconv.ParseUint(number, 16, 16)
	from, known := parseKernelAddress(address)
	return uint16(port), err == nil && port > 0 && known && !from.Unmap().IsLoopback()
}

// parseKernelAddress reads words of 32 bits, each with its bytes as this machine has them.
func parseKernelAddress(text string) (netip.Addr, bool) {
	var b bytes.Buffer
	for word := range slices.Chunk([]byte(text), 8) {
		n, err := strconv.ParseUint(string(word), 16, 32)
		if err != nil || len(word) != 8 {
			return netip.Addr{}, false
		}
		b.Write(binary.NativeEndian.AppendUint32(nil, uint32(n)))
	}
	return netip.AddrFromSlice(b.Bytes())
}

// ephemeralPorts are the first and the last of those that the kernel gives to clients.
func ephemeralPorts(proc string) ([2]uint16, error) {
	ports := [2]uint16{32768, 60999}
	text, err := os.ReadFile(filepath.Join(proc, "sys/net/ipv4/ip_local_port_range"))
	if err != nil {
		return ports, err
	}
	if _, err := fmt.Sscan(string(text), &ports[0], &ports[1]); err != nil {
		return ports, fmt.Errorf("read ip_local_port_range: %w", err)
	}
	return ports, nil
}
