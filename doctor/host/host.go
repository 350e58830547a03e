// Package host looks at the machine that it runs on, for the doctor and for a support bundle.
//
// Start at [Look] and [Support]. Reads: files below the machine's root, /proc, systemd, the container runtime's socket, log files of pods,
// and the date in an answer of the API server. Writes nothing. Parts that cannot be read are listed beside the others.
package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/machine"
)

// Look is what the doctor goes by on a machine: its kubelet's process, unit and files, ports, static pods, certificates,
// clock, resolver, container runtime and disks, whether its Node is there, whether a Service answers, and how many TCP segments it sends
// again meanwhile. It needs no cluster, and writes nothing.
// What could not be looked at is returned beside it.
func Look(whole context.Context, m *machine.Machine) (*diagnosis.Host, []diagnosis.NotSeen) {
	ctx, cancel := context.WithTimeout(whole, timeout)
	defer cancel()
	h := &looking{Machine: m, seen: &diagnosis.Host{}}
	before, uncounted := h.count()
	h.look(diagnosis.HostResolverPart, h.config) // what follows goes by it
	h.names()
	h.kernel()
	h.look(diagnosis.HostKubeletPart, func() error { return h.unit(ctx) })
	h.look(diagnosis.HostFlagsPart, func() error { return h.flags(ctx) })
	h.look(diagnosis.HostResolverPart, h.resolver)
	h.look(diagnosis.HostPortsPart, h.ports)
	h.look(diagnosis.HostManifestsPart, h.manifests)
	h.look(diagnosis.HostCertsPart, h.certificates)
	h.look(diagnosis.HostRuntimePart, func() error { return h.runtime(ctx) })
	h.look(diagnosis.HostDisksPart, h.disks)
	h.look(diagnosis.HostClockPart, func() error { return h.clock(ctx) }) // this and what follows ask an API server
	h.look(diagnosis.HostLogsPart, func() error { return h.quoteLogs(whole) })
	h.look(diagnosis.HostNodePart, func() error { return h.registered(ctx) })
	h.look(diagnosis.HostServicePart, func() error { return h.service(ctx) })
	h.look(diagnosis.HostSegmentsPart, func() error {
		if errors.Is(uncounted, fs.ErrNotExist) { // without IPv4 the file is not there
			return nil
		}
		return errors.Join(uncounted, h.losses(ctx, before))
	})
	h.look(diagnosis.HostNodePart, func() error { return h.twin(whole) })
	h.complain(whole) // a server that drops packets has used up the other limit
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
	h.seen.ProviderID = finding.Clean(h.kubelet.ProviderID)
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
	const start = "ExecMainStartTimestampMonotonic"
	h.seen.Unit, h.young, h.settled = u, h.startedLately(says[start], 30*time.Second), !h.startedLately(says[start], 2*time.Minute)
	return nil
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
		if name != "hostname-override" {
			continue
		}
		value := flag.Value
		if running != nil {
			value = f.Value
		}
		if value != "" && !strings.ContainsAny(value, "$%") { // what systemd puts in the place of these is not known
			h.seen.Node = strings.ToLower(value)
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
