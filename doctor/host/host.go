// Package host looks at the machine that it runs on, for the doctor and for a support bundle.
//
// Start at [Look] and [Support]. Reads: files below the machine's root, /proc, systemd, the container runtime's socket,
// and the date in an answer of the API server. Writes nothing. Parts that cannot be read are listed beside the others.
package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
)

// timeout bounds what a machine is asked: a runtime that hangs is a finding. Of it, serverTimeout is for a question to the
// API server, which may be busy.
const timeout, serverTimeout = 10 * time.Second, 3 * time.Second

// looking looks at one machine.
type looking struct {
	*machine.Machine
	seen    *diagnosis.Host
	notSeen []diagnosis.NotSeen
	kubelet kubeletConfig
	young   bool // the kubelet has just been started, and may not have come as far as its Node
}

// kubeletConfig is what of the kubelet's configuration the rest of a machine is compared with.
type kubeletConfig struct {
	ResolvConf    *string           `json:"resolvConf"`
	StaticPodPath string            `json:"staticPodPath"`
	CgroupDriver  string            `json:"cgroupDriver"`
	Runtime       string            `json:"containerRuntimeEndpoint"`
	RegisterNode  *bool             `json:"registerNode"`
	EvictionHard  map[string]string `json:"evictionHard"`
}

// Look is what the doctor goes by on a machine: its kubelet's process, unit and files, ports, static pods, certificates,
// clock, resolver, container runtime and disks, whether its Node is there, whether a Service answers, and how many TCP segments it sends
// again meanwhile. It needs no cluster, and writes nothing.
// What could not be looked at is returned beside it.
func Look(ctx context.Context, m *machine.Machine) (*diagnosis.Host, []diagnosis.NotSeen) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	h := &looking{Machine: m, seen: &diagnosis.Host{}}
	before, uncounted := h.count()
	h.look(diagnosis.HostResolverPart, h.config) // what follows goes by it
	h.names()
	h.look(diagnosis.HostKubeletPart, func() error { return h.unit(ctx) })
	h.look(diagnosis.HostFlagsPart, func() error { return h.flags(ctx) })
	h.look(diagnosis.HostResolverPart, h.resolver)
	h.look(diagnosis.HostPortsPart, h.ports)
	h.look(diagnosis.HostManifestsPart, h.manifests)
	h.look(diagnosis.HostCertsPart, h.certificates)
	h.look(diagnosis.HostRuntimePart, func() error { return h.runtime(ctx) })
	h.look(diagnosis.HostDisksPart, h.disks)
	h.look(diagnosis.HostClockPart, func() error { return h.clock(ctx) }) // this and what follows ask an API server
	h.look(diagnosis.HostNodePart, func() error { return h.registered(ctx) })
	h.look(diagnosis.HostServicePart, func() error { return h.service(ctx) })
	h.look(diagnosis.HostSegmentsPart, func() error {
		if errors.Is(uncounted, fs.ErrNotExist) { // without IPv4 the file is not there
			return nil
		}
		return errors.Join(uncounted, h.losses(ctx, before))
	})
	return h.seen, h.notSeen
}

// IsNode tells whether a machine has a kubelet that kubeadm has set up, or that was: else the doctor has nothing to look
// for on it.
func IsNode(m *machine.Machine) bool {
	files := []string{machine.KubeletConf, machine.BootstrapConf, machine.KubeletConfig, machine.KubeadmFlags}
	return slices.ContainsFunc(files, func(path string) bool {
		there, err := m.Exists(path)
		return there || err != nil // what cannot be told is looked at
	})
}

// look does one part, and writes down why it could not.
func (h *looking) look(part string, see func() error) {
	err := see()
	known := slices.ContainsFunc(h.notSeen, func(n diagnosis.NotSeen) bool { return n.What == part })
	if err == nil || known {
		return
	}
	reason := metav1.StatusReason("")
	if errors.Is(err, fs.ErrPermission) {
		reason = metav1.StatusReasonForbidden
	}
	message := finding.Clean(redact.Text(err.Error()))
	h.notSeen = append(h.notSeen, diagnosis.NotSeen{What: part, Reason: reason, Message: message})
}

// config reads the kubelet's. Without one the kubelet has its own defaults.
func (h *looking) config() error {
	data, err := h.Read(machine.KubeletConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = yaml.Unmarshal(data, &h.kubelet)
	}
	if err != nil {
		return fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	return nil
}

func (h *looking) names() {
	name, err := h.Read("/proc/sys/kernel/hostname")
	if err == nil {
		h.seen.Name = strings.TrimSpace(string(name))
	}
	h.seen.Node = strings.ToLower(h.seen.Name)
	if addrs, err := h.Interfaces(); err == nil {
		for _, addr := range slices.Concat(addrs...) {
			h.seen.Addresses = append(h.seen.Addresses, addr.String())
		}
	}
	if value, err := h.Read("/proc/sys/net/ipv4/ip_forward"); err == nil { // without IPv4 the file is not there
		h.seen.ForwardingOff = strings.TrimSpace(string(value)) == "0"
	}
	for _, file := range []string{machine.StateFile, machine.RecordFile} {
		if there, err := h.Exists(file); err == nil && there {
			h.seen.Ours = true
		}
	}
}

// unit asks systemd about the kubelet.
func (h *looking) unit(ctx context.Context) error {
	out, err := h.Output(ctx, "systemctl", "show", "kubelet", "-p",
		"LoadState,ActiveState,SubState,UnitFileState,NRestarts,NeedDaemonReload,MainPID,ExecMainStartTimestampMonotonic")
	if err != nil {
		return err
	}
	says := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		says[name] = value
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(says[name]) // what is no number is not told
		return n
	}
	u := &diagnosis.HostUnit{
		Load: says["LoadState"], Active: says["ActiveState"], Sub: says["SubState"], File: says["UnitFileState"],
		PID: number("MainPID"), Restarts: number("NRestarts"), Stale: says["NeedDaemonReload"] == "yes",
	}
	h.seen.Unit, h.young = u, h.startedLately(says["ExecMainStartTimestampMonotonic"])
	if u.PID == 0 && u.Load != "not-found" && u.Active != "inactive" { // one that was stopped has ended for no error
		u.Complaint = h.complaint(ctx)
	}
	return nil
}

// complaint is the last line of the kubelet's log that says an error.
func (h *looking) complaint(ctx context.Context) string {
	out, err := h.Output(ctx, "journalctl", "-u", "kubelet", "-n", "50", "-o", "cat", "--no-pager")
	if err != nil {
		return "" // no log is no answer
	}
	for _, line := range slices.Backward(strings.Split(string(out), "\n")) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "E") || strings.HasPrefix(line, "F") || strings.Contains(line, "err=") {
			return finding.Clean(redact.Text(line[:min(len(line), 300)]))
		}
	}
	return ""
}

// flags compares the kubelet's process with the files behind it.
func (h *looking) flags(ctx context.Context) error {
	running, err := h.RunningKubelet(ctx)
	if err != nil {
		return err
	}
	if out, err := h.Output(ctx, "kubelet", "--version"); err == nil {
		h.seen.Version = strings.TrimPrefix(strings.TrimSpace(string(out)), "Kubernetes ")
	}
	for _, name := range h.flagNames() {
		flag, err := h.KubeletFlag(running, name)
		if err != nil {
			return err
		}
		if flag == nil {
			continue
		}
		f := diagnosis.HostFlag{Name: name}
		for _, u := range flag.Uses {
			place := diagnosis.HostPlace{File: h.inMachine(u.File), Line: u.Line, Value: hidden(name, u.Value)}
			f.Places = append(f.Places, place)
		}
		if running != nil {
			value, is := running.Flag(name)
			f.Value, f.Runs = hidden(name, value), is
		}
		h.seen.Flags = append(h.seen.Flags, f)
		if name == "hostname-override" && flag.Value != "" {
			h.seen.Node = strings.ToLower(flag.Value)
		}
	}
	return nil
}

func hidden(flag, value string) string {
	if redact.Secret(flag) {
		return redact.Mark
	}
	return finding.Clean(redact.Text(value))
}

// flagNames are those of the cloud, and all that kubeadm and the administrator have set.
func (h *looking) flagNames() []string {
	names := []string{"cloud-provider", "cloud-config", "node-ip", "hostname-override", "provider-id"}
	for _, file := range []string{machine.KubeadmFlags, "/etc/default/kubelet", "/etc/sysconfig/kubelet"} {
		data, err := h.Read(file)
		if err != nil {
			continue // the flags of the cloud are looked for there in any case, and say so
		}
		for line := range strings.Lines(string(data)) {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return r <= ' ' || r == '"' || r == '\'' }) {
				at := strings.Index(word, "--")
				if at < 0 || at > 0 && word[at-1] != '=' {
					continue
				}
				if name, _, _ := strings.Cut(word[at+2:], "="); name != "" && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// inMachine is a path as it is on the machine.
func (h *looking) inMachine(path string) string {
	rel, err := filepath.Rel(h.Root, path)
	if err != nil {
		return path
	}
	return "/" + rel
}
