package host

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
)

// clock compares this machine's with the date that the kubelet's API server has in its answers, whatever these are. The
// server's certificate is not judged: by a clock that is wrong it would be refused. No credential is sent.
func (h *looking) clock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	data, err := h.Read(machine.KubeletConf)
	if errors.Is(err, fs.ErrNotExist) {
		data, err = h.Read(machine.BootstrapConf)
	}
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return fmt.Errorf("find the API server: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/version", nil)
	if err != nil {
		return fmt.Errorf("ask %s for its date: %w", config.Host, err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	before := h.Now()
	answer, err := transport.RoundTrip(request)
	if err != nil {
		h.reach(request)
		return fmt.Errorf("ask %s for its date: %w", config.Host, err)
	}
	_ = answer.Body.Close()
	now := before.Add(h.Now().Sub(before) / 2)
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		return fmt.Errorf("ask %s for its date: %w", config.Host, err)
	}
	const halfOfItsUnit = time.Second / 2 // the header has whole seconds
	h.seen.Clock = &diagnosis.HostClock{Server: config.Host, Ahead: now.Sub(date.Add(halfOfItsUnit)).Seconds()}
	return nil
}

// resolver reads the file that pods get, which is the kubelet's choice.
func (h *looking) resolver() error {
	path := ptr.Deref(h.kubelet.ResolvConf, "/etc/resolv.conf")
	if path == "" {
		return nil // pods get none
	}
	r := &diagnosis.HostResolver{File: path}
	data, err := h.Read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.Missing = true
	case err != nil:
		return fmt.Errorf("read the resolver's file: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "nameserver" {
			r.Servers = append(r.Servers, finding.Clean(fields[1]))
		}
	}
	h.seen.Resolver = r
	return nil
}

var (
	systemdCgroup = regexp.MustCompile(`(?m)^\s*SystemdCgroup\s*=\s*(true|false)`)
	semantic      = regexp.MustCompile(`\bv?(\d+\.\d+\.\d+)`)
)

// runtime asks the container runtime's socket, and reads the cgroup drivers of both.
func (h *looking) runtime(ctx context.Context) error {
	endpoint := cmp.Or(h.kubelet.Runtime, "unix:///run/containerd/containerd.sock")
	for _, f := range h.seen.Flags {
		if f.Name == "container-runtime-endpoint" && f.Value != "" {
			endpoint = f.Value
		}
	}
	socket, is := strings.CutPrefix(endpoint, "unix://")
	if !is {
		socket = endpoint
	}
	if rest, is := strings.CutPrefix(socket, "/var/run/"); is { // a link to /run, which below another root leads out of it
		socket = "/run/" + rest
	}
	r := &diagnosis.HostRuntime{Socket: socket, KubeletDriver: h.kubelet.CgroupDriver}
	err := speaksHTTP2(ctx, h.Path(socket))
	if errors.Is(err, fs.ErrPermission) {
		return err // who may not ask knows nothing
	}
	if ctx.Err() != nil {
		return ctx.Err() // nor who has no time left
	}
	h.seen.Runtime = r
	if err != nil {
		r.Error = finding.Clean(err.Error())
	}
	if !strings.Contains(socket, "containerd") {
		return nil
	}
	if out, err := h.Output(ctx, "containerd", "--version"); err == nil {
		if match := semantic.FindSubmatch(out); match != nil {
			r.Version = string(match[1])
		}
	}
	if data, err := h.Read("/etc/containerd/config.toml"); err == nil {
		r.Driver = "cgroupfs"
		if match := systemdCgroup.FindSubmatch(data); match != nil && string(match[1]) == "true" {
			r.Driver = "systemd"
		}
	}
	return nil
}

// speaksHTTP2 begins a connection as gRPC does: a server that lives answers with a frame of settings. One that only has
// its socket open does not.
func speaksHTTP2(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is to be kept
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // a connection that takes none fails below
	}
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0} // an empty frame of type SETTINGS, RFC 9113 section 6.5
	if _, err := conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), settings...)); err != nil {
		return err
	}
	frame := make([]byte, 9)
	if _, err := io.ReadFull(conn, frame); err != nil {
		return fmt.Errorf("it has not answered in 3 s: %w", err)
	}
	if kind := binary.BigEndian.Uint16(frame[2:4]) & 0xff; kind != 4 {
		return errors.New("its answer is not that of a container runtime")
	}
	return nil
}

// disks asks for room where the kubelet, containerd and etcd write.
func (h *looking) disks() error {
	limit := 10 // the kubelet's default for nodefs.available, in percent
	if text, set := h.kubelet.EvictionHard["nodefs.available"]; set {
		// An amount of bytes is no percentage: only what is full counts.
		limit, _ = strconv.Atoi(strings.TrimSuffix(text, "%"))
	} else if h.kubelet.EvictionHard != nil {
		limit = 0
	}
	var errs []error
	for _, path := range []string{"/", "/var/lib/kubelet", "/var/lib/containerd", "/var/lib/etcd", "/var/log"} {
		var fs unix.Statfs_t
		err := unix.Statfs(h.Path(path), &fs)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("ask for room in %s: %w", path, err))
			continue
		}
		if d := diskOf(path, &fs); d != nil {
			if path == "/var/lib/kubelet" || path == "/var/lib/containerd" {
				d.EvictsBelow = limit
			}
			h.seen.Disks = append(h.seen.Disks, *d)
		}
	}
	return errors.Join(errs...)
}

// readOnly is ST_RDONLY of statvfs(3), which package unix does not name for each system that this is compiled for.
const readOnly = 1

// diskOf is nil for a root that is only read: it is an image, such as of squashfs, which is always full.
func diskOf(path string, fs *unix.Statfs_t) *diagnosis.HostDisk {
	if path == "/" && fs.Flags&readOnly != 0 {
		return nil
	}
	size := uint64(fs.Bsize)
	return &diagnosis.HostDisk{
		Path: path, Bytes: fs.Blocks * size, FreeBytes: fs.Bavail * size, Inodes: fs.Files, FreeInodes: fs.Ffree,
	}
}
